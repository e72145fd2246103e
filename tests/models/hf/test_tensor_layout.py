"""Parts of parameters and their places in tensors, number by number."""

import numpy as np
import pytest

from models.config import ModelConfig
from models.hf import tensor_layout
from models.hf.tensor_layout import LeafLayout

CONFIG = ModelConfig(
  vocab_size=11,
  width=8,
  layers=2,
  heads=4,
  kv_heads=2,
  head_dim=6,
  mlp_width=12,
  family="phi3",
)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("rows", [slice(0, 40), slice(17, 39)])
def test_a_part_is_written_and_a_slice_of_it_read(fused, rows):
  """A part [D, heads, head_dim] is stored as [heads * head_dim, D]."""
  options = {"fused_axis": 0, "start": 5, "total": 20} if fused else {}
  layout = LeafLayout("query", "q", ((1, 2), (0,)), (40, 2, 3), **options)
  assert layout.stored_shape == ((20 if fused else 6), 40)
  part = np.arange(240.0).reshape(40, 2, 3)
  tensor = np.full(layout.stored_shape, -1.0)
  layout.write(part, tensor)
  start = 5 if fused else 0
  for d in range(40):
    np.testing.assert_array_equal(
      tensor[start : start + 6, d], part[d].reshape(6)
    )
  assert (tensor == -1).sum() == (14 * 40 if fused else 0)
  out = np.empty((rows.stop - rows.start, 1, 2))
  layout.read(tensor, (rows, slice(1, 2), slice(1, 3)), out)
  np.testing.assert_array_equal(out, part[rows, 1:2, 1:3])


def test_the_first_of_several_leaves_begins_at_0():
  layout = LeafLayout("query", "qkv", ((0,),), (3,), fused_axis=0, total=4)
  tensor = np.zeros(4)
  layout.write(np.array([1.0, 2.0, 3.0]), tensor)
  np.testing.assert_array_equal(tensor, [1, 2, 3, 0])


def test_projections_of_phi_3_are_fused_in_a_fixed_order():
  layouts = {x.leaf: x for x in tensor_layout.layout(CONFIG)}
  # 4 heads of queries, 2 of keys and 2 of values, with 6 channels each.
  places = {
    "attention.query": (0, 48),
    "attention.key": (24, 48),
    "attention.value": (36, 48),
    "mlp.gate": (0, 24),
    "mlp.up": (12, 24),
  }
  for name, place in places.items():
    layout = layouts[f"layers.{name}.kernel"]
    assert layout.fused_axis == 0, name
    assert (layout.start, layout.total) == place, name
    assert layout.stored_shape == (place[1], 8)
  assert layouts["embed.table"].fused_axis is None
  assert layouts["layers.attention.output.kernel"].stored_shape == (8, 24)
  assert layouts["layers.mlp.down.kernel"].tensor_names() == [
    f"model.layers.{layer}.mlp.down_proj.weight" for layer in (0, 1)
  ]
