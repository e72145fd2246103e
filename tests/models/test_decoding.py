"""Parameters as sampling reads them."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small_decoders

from models import decoding


def test_norms_and_heads_keep_their_dtype():
  config = dataclasses.replace(small_decoders.BASE, dtype="bfloat16")
  one = jnp.full(2, 1 + 2**-10)  # bfloat16 rounds it to 1
  params = {
    "embed": {"table": one},
    "layers": {
      "mlp": {"up": {"kernel": one}},
      "attention_norm": {"scale": one},
      "attention": {"query_norm": {"scale": one}},
    },
    "final_norm": {"scale": one},
    "value": {"kernel": one},
    "heads": {"steps": {"kernel": one}},
  }
  cast = decoding.cast(config, params)
  layers = cast["layers"]
  rounded = (cast["embed"]["table"], layers["mlp"]["up"]["kernel"])
  exact = (
    layers["attention_norm"]["scale"],
    layers["attention"]["query_norm"]["scale"],
    cast["final_norm"]["scale"],
    cast["value"]["kernel"],
    cast["heads"]["steps"]["kernel"],
  )
  for leaf in rounded:
    assert leaf.dtype == jnp.bfloat16
    np.testing.assert_array_equal(leaf, 1)
  for leaf in exact:
    assert leaf.dtype == jnp.float32
    np.testing.assert_array_equal(leaf, one)


def ring(capacity):
  """Rings of two layers with one row, one head and two channels."""
  values = jnp.arange(2.0 * capacity).reshape(1, 1, capacity, 2)
  layer = decoding.KeyValues(values.swapaxes(-1, -2), values)
  return decoding.Cache(
    prompts=(),
    completions=(layer, layer),
    prompt_mask=jnp.ones((1, 1), bool),
    steps=jnp.zeros((), jnp.int32),
    capacity=capacity,
    max_length=8,
  )


@pytest.mark.parametrize(("old", "new"), [(3, 5), (5, 3), (3, 3)])
def test_a_ring_keeps_its_first_entries_when_it_is_resized(old, new):
  resized = decoding.resize(ring(old), new)
  assert resized.capacity == new
  assert len(resized.completions) == 2
  expected = np.zeros((1, 1, new, 2))
  count = min(old, new)
  expected[:, :, :count] = np.arange(2.0 * count).reshape(count, 2)
  for layer in resized.completions:
    np.testing.assert_array_equal(layer.values, expected)
    np.testing.assert_array_equal(layer.keys, expected.swapaxes(-1, -2))


def test_stacked_rings_keep_their_arrays_and_have_a_limit():
  values = jnp.zeros((2, 1, 1, 4, 2))
  stacked = ring(4).replace(
    completions=decoding.KeyValues(values.swapaxes(-1, -2), values)
  )
  smaller = decoding.resize(stacked, 3)
  assert smaller.capacity == 3
  assert smaller.completions.keys.shape == (2, 1, 1, 2, 4)
  assert decoding.resize(smaller, 4).capacity == 4
  with pytest.raises(ValueError, match="capacity = 5 must be at most 4"):
    decoding.resize(stacked, 5)
