"""Ratios: the log importance weight of each token against the old policy.

Each is `(log_probs, reference, mask) -> log_ratio [P, S, T]`. The two sequence
ratios carry the value of the whole sequence at each token while the gradient
stays that token's own: `sg(value) + log_probs - sg(log_probs)`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked

Array = jax.Array


def token(log_probs: Array, reference: Array, mask: Array) -> Array:
  """log rho_t = log pi(y_t) - log pi_old(y_t)."""
  del mask
  return log_probs - reference


def _with_own_gradient(value: Array, log_probs: Array) -> Array:
  stop = jax.lax.stop_gradient
  return stop(value) + log_probs - stop(log_probs)


def sequence_mean(log_probs: Array, reference: Array, mask: Array) -> Array:
  """mean_t log rho_t at every token: the length-normalised ratio of GSPO."""
  mean = masked.mean(log_probs - reference, mask, keepdims=True)
  return _with_own_gradient(mean, log_probs)


def sequence(log_probs: Array, reference: Array, mask: Array) -> Array:
  """sum_t log rho_t at every token: the true ratio of whole samples.

  Of their tokens that are kept, where a filter of tokens keeps some.
  """
  difference = jnp.where(mask, log_probs - reference, 0.0)
  return _with_own_gradient(difference.sum(-1, keepdims=True), log_probs)
