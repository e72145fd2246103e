"""Functions that select tokens of the whole batch, by rank or by covariance.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked

Array = jax.Array
ALL_AXES = (0, 1, 2)  # axes of [P, S, T]


def lowest(values: Array, mask: Array, count: Array) -> Array:
  """Returns a mask of the `count` smallest values.

  Args:
    values: `[P, S, T]`.
    mask: `[P, S, T]` bool, True for entries that exist; the others are not
      selected.
    count: `[]`, number of entries. If fewer exist, all are selected. Entries
      that tie with the last selected one are selected, too.

  Returns:
    `[P, S, T]` bool.
  """
  ordered = jnp.sort(jnp.where(mask, values, jnp.inf).ravel())
  # The value of the last entry that is selected.
  largest_selected = ordered[
    jnp.clip(count.astype(int) - 1, 0, ordered.size - 1)
  ]
  return mask & (values <= largest_selected) & (count >= 1)


def token_covariance(advantages: Array, log_probs: Array, mask: Array) -> Array:
  """Returns (A - mean A) (log pi - mean log pi), means over the batch's tokens.

  The mean of the result estimates the rate at which a policy gradient step
  lowers the entropy.

  Args:
    advantages, log_probs: A and log pi, `[P, S, T]`.
    mask: `[P, S, T]` bool, True for the tokens that count.

  Returns:
    `[P, S, T]`; 0 where the mask is False.
  Source: Cui et al. 2025, The Entropy Mechanism of Reinforcement Learning.
  """

  def centered(x):
    return x - masked.mean(x, mask, ALL_AXES, keepdims=True)

  return jnp.where(mask, centered(advantages) * centered(log_probs), 0.0)
