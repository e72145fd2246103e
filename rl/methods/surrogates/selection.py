"""Tokens chosen over the whole batch, by rank or by covariance."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked

Array = jax.Array
EVERYWHERE = (0, 1, 2)


def lowest(values: Array, mask: Array, count: Array) -> Array:
  """The `count` entries with the smallest values; ties of the last are in.

  Args:
    values, mask: `[P, S, T]`, and which of them exist.
    count: `[]`; all are chosen if fewer exist.

  Returns:
    `[P, S, T]` bool.
  """
  ordered = jnp.sort(jnp.where(mask, values, jnp.inf).ravel())
  last = ordered[jnp.clip(count.astype(int) - 1, 0, ordered.size - 1)]
  return mask & (values <= last) & (count >= 1)


def token_covariance(advantages: Array, log_probs: Array, mask: Array) -> Array:
  """(A - mean A)(log pi - mean log pi), the means over the batch's tokens.

  Its mean says how fast a policy gradient step lowers the entropy. 0 where
  masked; all arguments are `[P, S, T]`.
  Source: Cui et al. 2025, The Entropy Mechanism of Reinforcement Learning.
  """

  def centered(x):
    return x - masked.mean(x, mask, EVERYWHERE, keepdims=True)

  return jnp.where(mask, centered(advantages) * centered(log_probs), 0.0)
