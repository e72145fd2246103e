"""The baseline of least variance where longer samples have larger gradients."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.losses.aggregates import seq_mean_token_sum
from rl.losses.surrogates import reinforce
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, scores, transform


@transform("sample")
def minus_length_weighted_mean(
  signal: jax.Array, rollout: types.Rollout
) -> jax.Array:
  """R_i - sum_j l_j R_j / sum_j l_j, l the scored tokens of a sample."""
  real = rollout.sample_mask
  tokens = masked.sum(rollout.scored_lengths, real, keepdims=True)
  weighted = masked.sum(rollout.scored_lengths * signal, real, keepdims=True)
  varied = real & ~masked.is_constant(signal, real, keepdims=True)
  return jnp.where(varied, signal - weighted / jnp.maximum(tokens, 1), 0.0)


def opo() -> Method:
  """A_i = R_i - sum_j l_j R_j / sum_j l_j; strictly on-policy REINFORCE.

  The variance of the gradient is least for b = E[R |g|^2] / E[|g|^2]; |g|^2 is
  taken to grow with the length l. No clip, no KL, no division by the spread.
  With equal lengths A is that of `dr_grpo`. A group of one, or of equal scores,
  has A exactly 0 (verl leaves a group of one its score).
  Source: Hao et al. 2025, On-Policy RL with Optimal Reward Baseline.
  """
  return Method(
    advantage=chain(scores(), minus_length_weighted_mean()),
    loss=policy_gradient(reinforce(), aggregate=seq_mean_token_sum()),
  )
