"""Closeness: a continuous score for countdown, for objectives that rank.

  score = exp(-|value - target| / scale) if the expression is legal, else 0

An exact hit scores 1 and a miss by `scale` scores 1/e, so that the best of k
samples improves long before any of them is exact: what max@k is made for.

Usage:
  values, legal = countdown.expression_value(
    completions, lengths, numbers[:, None])
  scores = closeness.closeness(values, legal, target[:, None], scale=3.0)

Source: this codebase; graded in the manner of the television game, where the
nearest player wins the round.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

Array = jax.Array


def closeness(
  values: Array, legal: Array, target: Array, scale: float = 3.0
) -> Array:
  """How near the value of a legal expression is to the target.

  Args:
    values, legal: `[...]` int32 and bool, of `countdown.expression_value`.
    target: `[...]` int32, broadcast against them.
    scale: distance at which the score has fallen to 1/e, in units of the
      target.

  Returns:
    `[...]` float32 in [0, 1].
  """
  distance = jnp.abs(values - target).astype(jnp.float32)
  return jnp.where(legal, jnp.exp(-distance / scale), 0.0)
