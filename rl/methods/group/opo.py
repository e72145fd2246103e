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
  """Returns R_i - sum_j l_j R_j / sum_j l_j, sums over the group.

  l_j is the number of scored tokens of sample j. A group of equal scores has 0.
  """
  valid = rollout.sample_mask
  lengths = rollout.scored_lengths
  group_tokens = masked.sum(lengths, valid, keepdims=True)  # [P, 1]
  weighted_sum = masked.sum(lengths * signal, valid, keepdims=True)  # [P, 1]
  scores_differ = valid & ~masked.is_constant(signal, valid, keepdims=True)
  baseline = weighted_sum / jnp.maximum(group_tokens, 1)
  return jnp.where(scores_differ, signal - baseline, 0.0)


def opo() -> Method:
  """A_i = R_i - sum_j l_j R_j / sum_j l_j; strictly on-policy REINFORCE.

  R_i [P, S] is the score of sample i and l_i the number of its scored tokens;
  the sums over j are over its group. The baseline with the least variance of
  the gradient is E[R |g|^2] / E[|g|^2], where g is the gradient of log pi(y) of
  a sample y; the paper assumes that |g|^2 is proportional to l. The loss is -A
  log pi(y), averaged over samples; there is no ratio, clip, KL or division by
  the standard deviation. If all lengths are equal, A is that of `dr_grpo`. A
  group with one sample or with equal scores has A exactly 0 (in verl, a single
  sample has A equal to its score).
  Source: Hao et al. 2025, On-Policy RL with Optimal Reward Baseline.
  """
  return Method(
    advantage=chain(scores(), minus_length_weighted_mean()),
    loss=policy_gradient(reinforce(), aggregate=seq_mean_token_sum()),
  )
