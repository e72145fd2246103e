"""Selects tokens of the whole batch, by rank or by covariance.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked

Array = jax.Array
ALL_AXES = (0, 1, 2)  # axes of [P, S, T]


def lowest(values: Array, mask: Array, count: Array) -> Array:
  """The `count` entries with the smallest values, with ties of the last one.

  Args:
    values: `[P, S, T]`.
    mask: `[P, S, T]` bool, entries that exist.
    count: `[]` number of entries; all are selected if fewer exist.

  Returns:
    `[P, S, T]` bool.
  """
  ordered = jnp.sort(jnp.where(mask, values, jnp.inf).ravel())
  last = ordered[jnp.clip(count.astype(int) - 1, 0, ordered.size - 1)]
  return mask & (values <= last) & (count >= 1)


def token_covariance(advantages: Array, log_probs: Array, mask: Array) -> Array:
  """(A - mean A)(log pi - mean log pi), with means over the batch's tokens.

  Its mean is the rate at which a policy gradient step lowers the entropy. All
  arguments are `[P, S, T]`; the result is 0 where masked.
  Source: Cui et al. 2025, The Entropy Mechanism of Reinforcement Learning.
  """

  def centered(x):
    return x - masked.mean(x, mask, ALL_AXES, keepdims=True)

  return jnp.where(mask, centered(advantages) * centered(log_probs), 0.0)
