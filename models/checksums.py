"""Checksums of arrays, to detect a checkpoint that was damaged on disk.

  c(x) = sum_i w_i (b_i + 1)  mod 2^32,   w_i = (2654435761 * i) | 1

The index i runs over the elements of the flattened array x, and b_i are the
bits of element i as an unsigned 32-bit integer; an element of 64 bits counts as
two. The operator | sets the last bit, so all weights w_i are odd, and changing
one b_i always changes the checksum c. Reordering elements changes c with a
probability of about 1 - 2^-32. The checksum does not depend on the sharding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from models import sharding
from rl import UsageError

PyTree = Any
KEY = "checksums"  # key of the checksums in the JSON file of a checkpoint
# A prime near 2^32 / golden ratio (Knuth's multiplicative hashing).
_MULTIPLIER = 2654435761


def compute(tree: PyTree) -> dict[str, int]:
  """Computes the checksum of each array.

  Args:
    tree: a pytree of arrays under any sharding, without typed PRNG keys.

  Returns:
    The checksum of each leaf, by its dotted path.
  """
  leaves = sharding.leaves_by_path(tree)
  sums = jax.device_get(_sums(list(leaves.values())))
  return dict(zip(leaves, map(int, sums), strict=True))


def verify(
  restored: Mapping[str, int], saved: Mapping[str, int], step: int
) -> None:
  """Compares the checksums of restored arrays with the saved ones.

  Args:
    restored: checksums of the arrays that were read.
    saved: checksums of the arrays when they were written.
    step: the checkpoint's step, for the error message.

  Raises:
    UsageError: checksums differ; the message names the first leaf for which
      they do.
  """
  for name in sorted(restored.keys() | saved.keys()):
    if restored.get(name) != saved.get(name):
      raise UsageError(
        f"the checkpoint of step {step} is damaged: {name} is not what was "
        "saved"
      )


def select(saved: Mapping[str, int], prefix: str) -> dict[str, int]:
  """Selects the checksums of the arrays below a path, or of the array there."""
  return {
    path: checksum
    for path, checksum in saved.items()
    if f"{path}.".startswith(f"{prefix}.")
  }


@jax.jit
def _sums(arrays: list[jax.Array]) -> list[jax.Array]:
  return [_sum(array) for array in arrays]


def _sum(array: jax.Array) -> jax.Array:
  """Returns the checksum of one array, `[]` uint32, which wraps at 2^32."""
  words = _to_words(array)
  # The flat index, computed axis by axis so that the array stays sharded.
  index = jnp.zeros(words.shape, jnp.uint32)
  for axis in range(words.ndim):
    stride = math.prod(words.shape[axis + 1 :]) % 2**32
    axis_index = jax.lax.broadcasted_iota(jnp.uint32, words.shape, axis)
    index += axis_index * jnp.uint32(stride)
  weights = (index * jnp.uint32(_MULTIPLIER)) | jnp.uint32(1)
  return jnp.sum(weights * (words + 1), dtype=jnp.uint32)


def _to_words(array: jax.Array) -> jax.Array:
  """Returns the bits of each element as uint32."""
  if array.dtype == bool:
    return array.astype(jnp.uint32)
  if jnp.issubdtype(array.dtype, jnp.complexfloating):
    # The two parts of a complex number are two elements.
    array = jnp.stack([array.real, array.imag], -1)
  size = array.dtype.itemsize
  if size >= 4:
    # An element of 64 bits becomes two words, on a new last axis.
    return jax.lax.bitcast_convert_type(array, jnp.uint32)
  unsigned = jnp.uint8 if size == 1 else jnp.uint16
  return jax.lax.bitcast_convert_type(array, unsigned).astype(jnp.uint32)
