"""Rewards the best sample of a group by its lead over the second best.

Axes: P prompts, S samples per prompt (a group).
"""

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.losses.aggregates import prompt_mean_token_sum
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, scores, transform

Array = jax.Array


@transform(takes="sample")
def lead_of_the_best(
  signal: Array, rollout: types.Rollout, *, scaled: bool
) -> Array:
  """Returns x_(n) - x_(n-1) at the best sample and 0 at the others.

  If `scaled`, it is divided by the standard deviation of the group + 1e-6.
  """
  valid = rollout.sample_mask
  best = masked.max(signal, valid, keepdims=True)
  is_best = valid & masked.is_equal(signal, best)
  is_unique = masked.count(is_best, keepdims=True) == 1
  second = masked.max(signal, valid & ~is_best, keepdims=True)
  # A group with one sample has no second best: masked.max is -inf there.
  leads = is_best & is_unique & jnp.isfinite(second)
  lead = jnp.where(leads, best - second, 0.0)
  if not scaled:
    return lead
  return lead / (masked.std(signal, valid, ddof=1, keepdims=True) + 1e-6)


def top_minus_second(scaled: bool = False, clip: float = 0.2) -> Method:
  """A = x_(n) - x_(n-1) at the best sample of a group, and 0 at the others.

  x_(n) and x_(n-1) are the highest and the second highest score of a group, the
  n samples of one prompt; A is [P, S]. If several samples have the highest
  score, or the group has one sample, A is 0. Summed over the group, A grad log
  pi is the unbiased estimate of the gradient of E[max of n], as in `max_at_k`
  at k = n with its default baseline. The loss is PPO-clip, summed over the
  tokens of a group and averaged over prompts.
  Source: Tang et al. 2025, Optimizing Language Models for Inference Time
  Objectives using Reinforcement Learning.

  Args:
    scaled: whether A is divided by the standard deviation of the group (ddof
      1).
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
  """
  return Method(
    advantage=chain(scores(), lead_of_the_best(scaled)),
    loss=policy_gradient(
      ppo_clip(clip, clip), aggregate=prompt_mean_token_sum()
    ),
  )
