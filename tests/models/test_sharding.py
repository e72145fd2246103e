"""Every parameter has a place, and a mesh that does not fit says why."""

import dataclasses
import math
import re
import types

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec as P

from models import sharding, transformer
from models.config import ModelConfig

CONFIG = ModelConfig(
  vocab_size=16,
  width=8,
  layers=3,
  heads=4,
  kv_heads=2,
  head_dim=4,
  mlp_width=12,
  qk_norm="head",
  attention_bias=True,
  value_head=True,
)
LEARNED = dataclasses.replace(
  CONFIG,
  positions="learned",
  max_positions=8,
  norm="layer",
  output_bias=True,
  mlp_bias=True,
  extra_heads=(("steps", 2),),
  lora_rank=2,
  lora_targets=".*",
)
EXPERTS = dataclasses.replace(
  CONFIG, experts=4, experts_per_token=2, lora_rank=2, lora_targets=".*"
)


def abstract(config: ModelConfig = CONFIG):
  return jax.eval_shape(lambda: transformer.init(config, jax.random.key(0)))


@pytest.fixture(scope="module")
def mesh():
  return sharding.make_mesh(data=2, fsdp=2, tensor=2)


@pytest.mark.parametrize("tied", [True, False])
def test_every_matrix_is_split_over_fsdp_and_tensor(tied, mesh):
  params = abstract(dataclasses.replace(CONFIG, tied_embeddings=tied))
  specs = sharding.partition_specs(params)
  leaves = jax.tree_util.tree_leaves_with_path(params)
  placed = jax.tree.leaves(specs, is_leaf=lambda x: isinstance(x, P))
  for (path, _), spec in zip(leaves, placed, strict=True):
    if path[-1].key in ("kernel", "table") and path[0].key != "value":
      assert {"fsdp", "tensor"} <= set(spec), sharding.dotted_path(path)
    if path[0].key == "layers":  # scanned: the layer axis stays whole
      assert not spec or spec[0] is None, sharding.dotted_path(path)


def test_each_rule_places_some_parameter():
  names = ["head.kernel"]  # of process reward models
  for config in (CONFIG, LEARNED, EXPERTS):
    paths = jax.tree_util.tree_leaves_with_path(abstract(config))
    names += [sharding.dotted_path(path) for path, _ in paths]
  for expression, _ in sharding.RULES:
    assert any(re.search(f"{expression}$", name) for name in names), expression


def test_optimiser_states_lie_like_their_parameters(mesh):
  params = abstract()
  state = jax.eval_shape(optax.adamw(1e-3).init, params)
  placed = sharding.shardings(state, mesh)
  expected = sharding.shardings(params, mesh)
  assert placed[0].mu == placed[0].nu == expected
  assert placed[0].count.spec == P()


def test_a_factored_second_moment_is_placed(mesh):
  state = jax.eval_shape(
    optax.adafactor(1e-3, min_dim_size_to_factor=2).init, abstract()
  )
  for leaf, place in zip(
    jax.tree.leaves(state),
    jax.tree.leaves(sharding.shardings(state, mesh)),
    strict=True,
  ):
    place.shard_shape(leaf.shape)  # raises where a shard is uneven


def test_shards_hold_the_parameters_once_per_data_replica(mesh):
  shapes = abstract()
  params = jax.tree.map(
    lambda x: jnp.arange(x.size, dtype=x.dtype).reshape(x.shape), shapes
  )
  placed = jax.device_put(params, sharding.shardings(params, mesh))
  table = placed["embed"]["table"]
  assert {shard.data.shape for shard in table.addressable_shards} == {(8, 4)}
  np.testing.assert_array_equal(table, params["embed"]["table"])


def test_a_batch_is_split_over_data_and_fsdp(mesh):
  assert sharding.batch_sharding(mesh).shard_shape((8, 5)) == (2, 5)


def test_explain_counts_the_bytes_of_one_device(mesh):
  params = abstract()
  placed = sharding.shardings(params, mesh)
  existing = jax.tree.map(
    lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place),
    params,
    placed,
  )
  lines = sharding.sharding_table(existing).splitlines()
  assert len(lines) == len(jax.tree.leaves(params)) + 2
  sizes = jax.tree.map(
    lambda x, place: 4 * math.prod(place.shard_shape(x.shape)), params, placed
  )
  total = sum(jax.tree.leaves(sizes))
  assert lines[-1].split() == ["total", f"{total:,}"]


def test_a_dimension_that_does_not_divide_is_named(mesh):
  params = abstract(dataclasses.replace(CONFIG, kv_heads=1))
  with pytest.raises(
    ValueError,
    match=r"layers\.attention\.key\.(kernel|bias): dimension \d of .* is 1, "
    r"which mesh axis tensor = 2 does not divide; choose tensor from \[1\]",
  ):
    sharding.shardings(params, mesh)


def test_a_matrix_without_a_rule_is_named():
  tree = {"layers": {"mlp": {"gates": {"kernel": jnp.zeros((2, 2))}}}}
  with pytest.raises(
    ValueError,
    match=r"no sharding rule for 'layers\.mlp\.gates\.kernel' of shape "
    r"\(2, 2\).*the most similar one is 'layers.mlp.\(gate\|up\).kernel'",
  ):
    sharding.partition_specs(tree)


def test_minus_one_takes_the_remaining_devices():
  mesh = sharding.make_mesh(data=2, tensor=-1)
  assert dict(mesh.shape) == {
    "replica": 1,
    "data": 2,
    "fsdp": 1,
    "tensor": 4,
    "context": 1,
  }


@pytest.mark.parametrize(
  ("sizes", "message"),
  [
    ({"fsdp": 3}, "does not fit 8 devices.*multiply to 3"),
    (
      {"fsdp": 7},
      r"other than -1 multiply to 7, .* in \[1, 2, 4, 8\] \(nearest: 8\)",
    ),
    ({"fsdp": 16, "data": -1}, r"in \[1, 2, 4, 8\] \(nearest: 8\)"),
    (
      dict.fromkeys(("replica", "data", "fsdp", "tensor", "context"), -1),
      "at most one of them -1",
    ),
    (
      {"data": 2, "fsdp": 2},
      "multiply to 4, but their product must be exactly 8",
    ),
    ({"data": -1, "fsdp": -1}, "at most one of them -1"),
    ({"data": 0}, "sizes must be positive"),
  ],
)
def test_a_mesh_that_does_not_fit_is_refused(sizes, message):
  with pytest.raises(ValueError, match=message):
    sharding.make_mesh(**sizes)


class SliceDevice:
  """A device of one of several slices, as far as meshes read it."""

  platform, device_kind, process_index = "cpu", "cpu", 0

  def __init__(self, number: int, slice_index: int):
    self.id, self.slice_index = number, slice_index


def test_only_the_axis_replica_crosses_slices():
  """Three slices of four devices with a copy of the parameters in each."""
  devices = [SliceDevice(i, i // 4) for i in range(12)]
  mesh = sharding.make_mesh(data=2, fsdp=-1, devices=devices)
  assert tuple(mesh.shape.values()) == (3, 2, 2, 1, 1)
  for number, replica in enumerate(mesh.devices):
    assert {x.slice_index for x in replica.flat} == {number}
  assert set(mesh.devices.flat) == set(devices)
  # Two copies in each slice.
  mesh = sharding.make_mesh(replica=6, data=2, devices=devices)
  assert tuple(mesh.shape.values()) == (6, 2, 1, 1, 1)
  slices = [{x.slice_index for x in replica.flat} for replica in mesh.devices]
  assert slices == [{0}, {0}, {1}, {1}, {2}, {2}]


@pytest.mark.parametrize("slices", [1, 2])
def test_an_axis_of_a_mesh_may_split_an_axis_of_the_network(
  slices, monkeypatch
):
  """Without that, a TPU has no mesh of most sizes."""
  devices = [SliceDevice(i, i * slices // 8) for i in range(8)]
  options = []

  def record(*sizes_and_devices, **others):
    options.append(others)
    return np.array(devices).reshape(slices, 8 // slices, 1, 1, 1)

  for name in ("create_device_mesh", "create_hybrid_device_mesh"):
    monkeypatch.setattr(sharding.mesh_utils, name, record)
  sharding.make_mesh(devices=devices)
  assert options == [{"allow_split_physical_axes": True}]


def test_a_mesh_has_all_devices_on_the_axis_data_by_default():
  assert tuple(sharding.make_mesh().shape.values()) == (1, 8, 1, 1, 1)


def test_context_splits_parameters_together_with_fsdp():
  table = {"embed": {"table": jax.ShapeDtypeStruct((4, 8), jnp.float32)}}

  def spec(mesh):
    return sharding.shardings(table, mesh)["embed"]["table"].spec

  mesh = sharding.make_mesh(data=2, fsdp=2, context=2)
  assert spec(mesh) == P("tensor", ("fsdp", "context"))
  mesh = sharding.make_mesh(data=4, fsdp=2)
  assert spec(mesh) == P("tensor", "fsdp")
  # A mesh of another program may lack the axis.
  assert spec(jax.make_mesh((4, 2), ("fsdp", "tensor"))) == P("tensor", "fsdp")


def test_the_table_of_leaves_is_aligned():
  mesh = sharding.make_mesh(data=2, fsdp=2, tensor=2)
  tree = {
    "embed": {"table": jax.ShapeDtypeStruct((4, 1000), jnp.float32)},
    "step": jax.ShapeDtypeStruct((), jnp.int32),
  }
  placed = jax.tree.map(
    lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place),
    tree,
    sharding.shardings(tree, mesh),
  )
  # 2 rows of 500 numbers of 4 bytes on a device, and a whole number.
  assert sharding.sharding_table(placed).splitlines() == [
    "name         shape     dtype    split over          bytes/device",
    "embed.table  4 x 1000  float32  0: tensor, 1: fsdp  4,000",
    "step         scalar    int32    whole               4",
    "total                                               4,004",
  ]


def test_a_replica_lies_within_a_slice():
  devices = [types.SimpleNamespace(slice_index=i // 4) for i in range(8)]
  with pytest.raises(
    ValueError, match="the 2 slices; the nearest multiple is 2"
  ):
    sharding.make_mesh(replica=1, devices=devices)


def test_parameters_are_split_over_fsdp_and_tensor_alone():
  """The other axes split examples and tokens."""
  for expression, spec in sharding.RULES:
    assert set(spec) <= {"fsdp", "tensor", None}, expression


def test_a_bias_is_split_like_the_outputs_of_its_kernel():
  rules = [
    (re.compile(f"{expression}$"), spec) for expression, spec in sharding.RULES
  ]

  def spec_of(name):
    return next(tuple(spec) for rule, spec in rules if rule.match(name))

  for name in ("query", "key", "value"):
    kernel = spec_of(f"layers.attention.{name}.kernel")
    # [layers, D, heads, head_dim] and [layers, heads, head_dim]
    assert spec_of(f"layers.attention.{name}.bias") == kernel[:1] + kernel[2:]
  for name in ("gate", "up"):
    kernel = spec_of(f"layers.mlp.{name}.kernel")
    assert spec_of(f"layers.mlp.{name}.bias") == kernel[:1] + kernel[2:]
