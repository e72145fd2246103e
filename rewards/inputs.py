"""What a reward reads of an array: the entries that exist, in float32.

A reward is a function of arrays that nobody cleaned: a row that was dropped, a
judge that did not answer, a score that was never computed may hold anything.
Each function passes what it reads through `present` before any arithmetic, so
that a masked NaN has no part in the value and none in the gradient either
(0 times NaN is NaN, also backwards).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

Array = jax.Array


def present(x: Array, mask: Array) -> Array:
  """`x` where `mask`, else 0, as float32.

  Args:
    x: any shape and dtype.
    mask: bool, broadcast against `x`.

  Returns:
    float32 of their common shape.
  """
  return jnp.where(mask, jnp.asarray(x).astype(jnp.float32), 0.0)


def is_right(correct: Array) -> Array:
  """Which verdicts say right: 1 does, 0 and -1 (unknown) do not."""
  return jnp.asarray(correct) == 1
