"""Importance ratios: log pi / pi_old of each token, or of its sample.

Each function is `(log_probs, reference, mask) -> log_ratio`, all `[P, S, T]`.
The reference are the log-probs of the old or of the behavior policy. The two
ratios of sequences have the value of the sequence at each of its tokens, and
the gradient of that token alone: `sg(value) + log_probs - sg(log_probs)`, with
sg for `jax.lax.stop_gradient`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked

Array = jax.Array


def token(log_probs: Array, reference: Array, mask: Array) -> Array:
  """The ratio of one token: log rho_t = log pi(y_t) - log pi_old(y_t)."""
  del mask
  return log_probs - reference


def _with_gradient_of(log_probs: Array, value: Array) -> Array:
  """The value of `value`, with the gradient of `log_probs`."""
  stop = jax.lax.stop_gradient
  return stop(value) + log_probs - stop(log_probs)


def sequence_mean(log_probs: Array, reference: Array, mask: Array) -> Array:
  """mean_t log rho_t, the length-normalised ratio of a sample (GSPO)."""
  # [P, S, 1]
  mean = masked.mean(log_probs - reference, mask, keepdims=True)
  return _with_gradient_of(log_probs, mean)


def sequence(log_probs: Array, reference: Array, mask: Array) -> Array:
  """sum_t log rho_t, the log-ratio of the probabilities of a sample.

  The sum is over the tokens in the loss: a `loss_filter` of tokens leaves the
  others out.
  """
  difference = jnp.where(mask, log_probs - reference, 0.0)
  return _with_gradient_of(log_probs, difference.sum(-1, keepdims=True))
