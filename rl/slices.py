"""Slices of a batch along P: minibatches, microbatches, parts of a pass.

Slices are *strided*: part i holds prompts i, i + n, i + 2n, ... A P sharded
over devices then stays where it is, while contiguous parts would move every
sample.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rl import types


def split(tree: types.PyTree, parts: int) -> types.PyTree:
  """`[P, ...]` leaves -> `[parts, P / parts, ...]`; scalars repeat."""

  def cut(x):
    if jnp.ndim(x) == 0:
      return jnp.broadcast_to(x, (parts,))
    strided = x.reshape(x.shape[0] // parts, parts, *x.shape[1:])
    return jnp.swapaxes(strided, 0, 1)

  return jax.tree.map(cut, tree)


def join(tree: types.PyTree) -> types.PyTree:
  """What `split` cut, `[parts, P / parts, ...]` -> `[P, ...]`."""

  def glue(x):
    whole = jnp.swapaxes(x, 0, 1)
    return whole.reshape(-1, *whole.shape[2:])

  return jax.tree.map(glue, tree)


def map_parts(
  fn: Callable[[types.PyTree], types.PyTree], tree: types.PyTree, parts: int
) -> types.PyTree:
  """`fn` of a tree of `[P, ...]`, one part after another; the same result."""
  if parts == 1:
    return fn(tree)
  return join(jax.lax.map(fn, split(tree, parts)))
