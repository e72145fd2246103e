"""Log importance ratios of tokens or samples (sequences).

Each function is `(log_probs, reference, mask) -> log_ratio`, with arrays
`[P, S, T]` for P prompts, S samples per prompt and T tokens:

  log_probs  log pi(y_t) of the sampled tokens, of the policy that is trained
  reference  log pi_ref(y_t), of the policy in the denominator (old or behavior)
  mask       True for the tokens in the loss

Below, log rho_t = log pi(y_t) - log pi_ref(y_t). The ratio of a sequence is
returned at each token of the sequence, where it has the gradient of that
token's log-prob alone: `sg(value) + log_probs - sg(log_probs)`, with
`sg = jax.lax.stop_gradient`. Only `shared_sequence_mean` has the gradients of
all tokens of the sequence.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked

Array = jax.Array


def token(log_probs: Array, reference: Array, mask: Array) -> Array:
  """Computes log rho_t, the log-ratio of each token."""
  del mask
  return log_probs - reference


def _with_gradient_of(log_probs: Array, value: Array) -> Array:
  """Returns `value`, with the gradient of `log_probs` in place of its own."""
  stop = jax.lax.stop_gradient
  return stop(value) + log_probs - stop(log_probs)


def sequence_mean(log_probs: Array, reference: Array, mask: Array) -> Array:
  """Computes mean_t log rho_t, the length-normalised ratio of a sample (GSPO).

  The mean is over the tokens in the loss; it is 0 if the sample has none.
  """
  mean = masked.mean(log_probs - reference, mask, keepdims=True)  # [P, S, 1]
  return _with_gradient_of(log_probs, mean)


def shared_sequence_mean(
  log_probs: Array, reference: Array, mask: Array
) -> Array:
  """Computes the value of `sequence_mean`, with the gradient of the mean.

  The gradient of the sum over tokens of ratio times value is that of
  `sequence_mean` if the values of a sample are all equal, as an advantage is.
  For values that differ from token to token, such as a KL, it is that of this
  function: each value moves the log-probs of all tokens of its sample.
  """
  mean = masked.mean(log_probs - reference, mask, keepdims=True)  # [P, S, 1]
  return jnp.broadcast_to(mean, mask.shape)


def sequence(log_probs: Array, reference: Array, mask: Array) -> Array:
  """Computes sum_t log rho_t, the log-ratio of the probabilities of a sample.

  The sum is over the tokens in the loss. Tokens that a `loss_filter` removes
  are left out.
  """
  difference = jnp.where(mask, log_probs - reference, 0.0)
  return _with_gradient_of(log_probs, difference.sum(-1, keepdims=True))
