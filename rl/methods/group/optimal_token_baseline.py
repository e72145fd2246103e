"""Optimal token baseline: at each token, the baseline of least variance.

Axes: P prompts, S samples per prompt (a group), T completion tokens, N token
positions, V tokens in the vocabulary.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
from rl.losses.aggregates import seq_mean_token_sum
from rl.losses.surrogates import reinforce
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import broadcast, chain, scores, transform


def _sum_squared_probs(logits: jax.Array, tokens: jax.Array) -> jax.Array:
  """Returns sum_v pi_v^2 of logits `[N, V]`, `[N]`."""
  del tokens
  return jnp.sum(jax.nn.softmax(logits) ** 2, -1)


# Sum over the vocabulary of the squared probabilities of the next token.
sum_squared_probs = scoring.Probe("sum_squared_probs", _sum_squared_probs)
# Needs, which are arrays that a forward pass computes: [P, S, T] of the old
# policy (at the start of the training step).
_SUM_SQUARED_PROBS = scoring.Need("old", sum_squared_probs)
_LOG_PROBS = scoring.Need("old", scoring.log_probs)


@transform(takes="token", needs={_SUM_SQUARED_PROBS, _LOG_PROBS})
def minus_optimal_baseline(
  signal: jax.Array, rollout: types.Rollout
) -> jax.Array:
  """Returns G_n - B_n at the n-th scored token of a sample.

    B_n = sum_j W_jn G_jn / sum_j W_jn,    W_jn = sum_{u <= n} s_ju

  The signal G is the return from a token on, j runs over the samples of the
  group that have an n-th scored token, and s = 1 - 2 pi + sum_v pi_v^2 is the
  squared norm of the gradient of log pi in the logits. See
  `optimal_token_baseline` for positions with a single sample.
  """
  mask = rollout.valid("token")
  pi = jnp.exp(rollout.extras[_LOG_PROBS])
  # At least 0, against rounding error where pi is close to 1.
  energy = jnp.maximum(1 - 2 * pi + rollout.extras[_SUM_SQUARED_PROBS], 0.0)

  # Scored tokens to the front of their sample, so that position n is the n-th.
  order = jnp.argsort(~mask, axis=-1, stable=True)
  valid, returns, energy = (
    jnp.take_along_axis(x, order, -1) for x in (mask, signal, energy)
  )
  weights = jnp.cumsum(energy, -1)  # W [P, S, T]; read where `valid`
  # Of the samples of a group at position n, [P, 1, T].
  total = masked.sum(weights, valid, axis=1, keepdims=True)
  weighted_sum = masked.sum(weights * returns, valid, axis=1, keepdims=True)
  # If all weights are 0, so are the gradients, and the baseline is 0.
  baseline = weighted_sum / jnp.where(total > 0, total, 1.0)
  baseline = jnp.where(
    masked.is_constant(returns, valid, axis=1, keepdims=True), returns, baseline
  )
  is_single = masked.count(valid, axis=1, keepdims=True) == 1
  baseline = jnp.where(is_single, 0.0, baseline)

  # A group with one sample has no baseline, and no advantage.
  has_others = masked.count(mask.any(-1), keepdims=True) > 1  # [P, 1]
  advantages = jnp.where(valid & has_others[..., None], returns - baseline, 0.0)
  return jnp.take_along_axis(advantages, jnp.argsort(order, axis=-1), -1)


def optimal_token_baseline() -> Method:
  """A_n = R - sum_j W_jn R_j / sum_j W_jn; strictly on-policy REINFORCE.

    W_jn = sum_{u <= n} s_ju,    s = 1 - 2 pi + sum_v pi_v^2

  R [P, S] is the score of a sample, n counts its scored tokens, and j runs over
  the samples of its group with at least n scored tokens. pi [P, S, T] is the
  probability of the token and pi_v that of token v of the vocabulary. s is the
  squared norm of the gradient of log pi(token) in the logits, so that W stands
  for that of the first n tokens in the parameters, and the baseline for the one
  with the least variance of the gradient. The loss is -A log pi, summed over
  tokens and averaged over samples, without a ratio or a clip. Scores that are
  equal among these samples, and a group with one sample, have A exactly 0 (in
  verl, a single sample has A equal to its score).
  Where only the longest sample of the group has an n-th token, the baseline is
  0, as in verl, and A = R; otherwise A would be 0 there.
  Open: not checked against the paper, of which only the abstract was available;
  the equations are those of its authors' code in verl, in the form that counts
  scored tokens (`tir_optimal_token_baseline`). The importance weights of that
  code, which multiply s by their square, are left out.
  Source: Li et al. 2026, The Optimal Token Baseline: Variance Reduction for
  Long-Horizon LLM-RL.
  """
  return Method(
    advantage=chain(scores(), broadcast(), minus_optimal_baseline()),
    loss=policy_gradient(reinforce(), aggregate=seq_mean_token_sum()),
  )
