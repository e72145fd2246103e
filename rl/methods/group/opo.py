"""OPO: the baseline of least variance if gradients grow with length.

Axes: P prompts, S samples per prompt (a group).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.losses.aggregates import seq_mean_token_sum
from rl.losses.surrogates import reinforce
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, scores, transform


@transform(takes="sample")
def minus_length_weighted_mean(
  signal: jax.Array, rollout: types.Rollout
) -> jax.Array:
  """R_i - sum_j l_j R_j / sum_j l_j, with l_j the scored tokens of sample j."""
  valid = rollout.sample_mask
  tokens = masked.sum(rollout.scored_lengths, valid, keepdims=True)  # [P, 1]
  weighted = masked.sum(rollout.scored_lengths * signal, valid, keepdims=True)
  scores_differ = valid & ~masked.is_constant(signal, valid, keepdims=True)
  baseline = weighted / jnp.maximum(tokens, 1)
  return jnp.where(scores_differ, signal - baseline, 0.0)


def opo() -> Method:
  """A_i = R_i - sum_j l_j R_j / sum_j l_j; strictly on-policy REINFORCE.

  R_i [P, S] is the score of sample i and l_i the number of its scored tokens;
  the sums are over its group, the samples of one prompt. The variance of the
  gradient is least for the baseline E[R |g|^2] / E[|g|^2], g the gradient of
  log pi(y); |g|^2 is assumed proportional to l. There is no clip, no KL and no
  division by the standard deviation. With equal lengths A is that of `dr_grpo`.
  A group with one sample or with equal scores has A exactly 0 (verl leaves a
  single sample its score).
  Source: Hao et al. 2025, On-Policy RL with Optimal Reward Baseline.
  """
  return Method(
    advantage=chain(scores(), minus_length_weighted_mean()),
    loss=policy_gradient(reinforce(), aggregate=seq_mean_token_sum()),
  )
