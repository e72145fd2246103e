"""Exceeding Pass@k Training: still more weight on hard prompts.

Axes: P prompts.
"""

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, pass_at_k_advantages, scores, transform


@transform(takes="sample")
def weigh_by_rarity(signal: jax.Array, rollout: types.Rollout) -> jax.Array:
  """Returns f(c) times the signal, f(c) = 4 / (10 log(c + 1/2)).

  c is the sum of the scores of the group, at least 1: the number of right
  samples if scores are 0 and 1.
  """
  # [P, 1], the number of right samples if scores are 0 and 1.
  num_right = masked.sum(rollout.scores, rollout.sample_mask, keepdims=True)
  weight = 4 / (10 * jnp.log(jnp.maximum(num_right, 1.0) + 0.5))
  return signal * weight


def pass_at_k_exceeding(
  k: int = 4, form: str = "analytic", low: float = 0.2, high: float = 0.28
) -> Method:
  """A_i = f(c) A_i of `pass_at_k`, with f(c) = 4 / (10 log(c + 1/2)).

  c is the number of right samples in the group: f is 0.99 for one, 0.27 for
  four and 0.11 for 32. The weight of a prompt in the loss, sum_i |A_i|, is
  largest if a single sample is right (at the paper's n = 32 samples, for every
  k); under `pass_at_k` this is so only for large k. Scores must be in [0, 1]; c
  is their sum, and at least 1. If scores are 0 and 1 this is the paper's rule,
  and c = 0 has A = 0. The loss is PPO-clip, averaged over the tokens of all
  samples.
  Open: the paper does not state the base of log; this implementation takes the
  natural logarithm. With base 10, f would be 2.3 times larger.
  Source: Chen et al. 2025, Pass@k Training, section 4.2.1.

  Args:
    k: size of the subsets.
    form: same as in `pass_at_k`.
    low, high: clip range [1 - low, 1 + high] of the importance ratio.
  """
  return Method(
    advantage=chain(scores(), pass_at_k_advantages(k, form), weigh_by_rarity()),
    loss=policy_gradient(ppo_clip(low, high)),
  )
