"""Numbers that tell whether arrays are still those that were saved.

  c(x) = sum_i w_i (b_i + 1)  mod 2^32,   w_i = (2654435761 i) | 1

over the bits b_i of each element, in words of 32, and its place i in the whole
array. Weights are odd, so any one element that changes changes the sum, and
what is shuffled does but for one case in billions. It is the same under any
sharding, and finds what a file system, a disk or a copy did to the files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

PyTree = Any
KEY = "checksums"  # in the JSON beside a checkpoint's arrays
_ODD = 2654435761  # near 2^32 over the golden ratio


def of(tree: PyTree) -> dict[str, int]:
  """The number of every array, by its dotted path, on the host.

  Args:
    tree: of arrays, under any sharding; no typed keys.
  """
  leaves = jax.tree.flatten_with_path(tree)[0]
  names = [
    jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves
  ]
  found = jax.device_get(_sums([leaf for _, leaf in leaves]))
  return {name: int(c) for name, c in zip(names, found, strict=True)}


def check(
  found: Mapping[str, int], saved: Mapping[str, int], step: int
) -> None:
  """Refuses what is not what was saved.

  Raises:
    ValueError: names the first that is not.
  """
  for name in sorted(found.keys() | saved.keys()):
    if found.get(name) != saved.get(name):
      raise ValueError(
        f"the checkpoint of step {step} is damaged: {name} is not what was saved"
      )


def of_params(saved: Mapping[str, int]) -> dict[str, int]:
  """Those of a checkpoint's parameters alone."""
  return {k: v for k, v in saved.items() if k.split(".")[0] == "params"}


@jax.jit
def _sums(arrays: list[jax.Array]) -> list[jax.Array]:
  return [_sum(array) for array in arrays]


def _sum(array: jax.Array) -> jax.Array:
  words = _words(array)
  place = jnp.zeros(words.shape, jnp.uint32)
  for axis in range(words.ndim):
    stride = math.prod(words.shape[axis + 1 :]) % 2**32
    at = jax.lax.broadcasted_iota(jnp.uint32, words.shape, axis)
    place += at * jnp.uint32(stride)
  weights = (place * jnp.uint32(_ODD)) | jnp.uint32(1)
  return jnp.sum(weights * (words + 1), dtype=jnp.uint32)


def _words(array: jax.Array) -> jax.Array:
  """Its bits, as unsigned numbers of 32; two for an element of 64."""
  if array.dtype == bool:
    return array.astype(jnp.uint32)
  if jnp.issubdtype(array.dtype, jnp.complexfloating):
    array = jnp.stack([array.real, array.imag], -1)
  size = array.dtype.itemsize
  if size >= 4:
    return jax.lax.bitcast_convert_type(array, jnp.uint32)
  whole = jnp.uint8 if size == 1 else jnp.uint16
  return jax.lax.bitcast_convert_type(array, whole).astype(jnp.uint32)
