"""The checksum of a few arrays, summed with the integers of Python."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models import checksums

ARRAYS = {
  "float": np.array([[1.5, -2.0, 0.0], [3.0, 1e-9, -7.0]], np.float32),
  "wide": np.arange(400, dtype=np.int32).reshape(2, 2, 100) - 7,
  "half": np.array([1.0, -3.0], jnp.bfloat16),
  "byte": np.array([[1], [-1]], np.int8),
  "bool": np.array([True, False, True]),
  "complex": np.array([1 + 2j, 3 - 4j, 0.5j], np.complex64),
  "scalar": np.array(5, np.uint32),
}
# The unsigned integers of as many bits.
UNSIGNED = {4: np.uint32, 2: np.uint16, 1: np.uint8, 8: np.uint32}


def expected_sum(array: np.ndarray) -> int:
  """`sum_i w_i (b_i + 1) mod 2^32`, word by word."""
  words = array.reshape(-1).view(UNSIGNED[array.dtype.itemsize])
  return (
    sum(
      ((2654435761 * i) % 2**32 | 1) * (int(bits) + 1)
      for i, bits in enumerate(words)
    )
    % 2**32
  )


def test_checksums_are_weighted_sums_of_bits():
  result = checksums.compute({"a": ARRAYS})
  assert result == {
    f"a.{name}": expected_sum(array) for name, array in ARRAYS.items()
  }


def test_an_array_of_more_than_2_to_the_32_elements_has_a_checksum():
  """The step of its first axis, 2^33, does not fit into 32 bits."""
  shape = jax.ShapeDtypeStruct((2, 2**17, 2**16), jnp.uint32)
  assert jax.eval_shape(checksums._sum, shape).dtype == jnp.uint32


@pytest.mark.parametrize(
  ("restored", "saved"),
  [
    ({"a": 1, "b": 2}, {"a": 1, "b": 3}),
    ({"a": 1}, {"a": 1, "b": 3}),
    ({"a": 1, "b": 3}, {"a": 1}),
  ],
)
def test_the_first_array_that_differs_is_named(restored, saved):
  with pytest.raises(ValueError, match="step 7 is damaged: b is not what"):
    checksums.verify(restored, saved, 7)
  checksums.verify(saved, saved, 7)


def test_parameters_are_selected_from_a_whole_state():
  saved = {"params.embed.table": 1, "opt_state.params.mu": 2, "paramsets": 3}
  assert checksums.select(saved, "params") == {"params.embed.table": 1}
  # The place of a single array is its own path.
  assert checksums.select(saved, "paramsets") == {"paramsets": 3}
