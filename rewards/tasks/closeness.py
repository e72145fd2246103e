"""Closeness: a graded score for the task countdown.

  score = exp(-|value - target| / scale) for legal expressions, else 0

An exact hit scores 1, and a miss by `scale` scores 1/e. The best score of k
samples (max@k) can therefore improve before any sample is exact.

Usage:
  values, legal = countdown.expression_value(
    completions, lengths, numbers[:, None])
  scores = closeness.closeness(values, legal, target[:, None], scale=3.0)

Source: this codebase; in the television game, too, the player who comes closest
to the target wins the round.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

Array = jax.Array


def closeness(
  values: Array, legal: Array, target: Array, scale: float = 3.0
) -> Array:
  """Returns the closeness of legal expressions to the target.

  Args:
    values: `[...]` int32, from `countdown.expression_value`.
    legal: `[...]` bool, from `countdown.expression_value`.
    target: `[...]` int32, broadcast against `values`.
    scale: distance at which the score has fallen to 1/e.

  Returns:
    `[...]` float32 in [0, 1].
  """
  distance = jnp.abs(values - target).astype(jnp.float32)
  return jnp.where(legal, jnp.exp(-distance / scale), 0.0)
