"""The best of the group against the runner-up."""

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.losses.aggregates import prompt_mean_token_sum
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, scores, transform

Array = jax.Array


@transform("sample")
def lead_of_the_best(
  signal: Array, rollout: types.Rollout, *, scaled: bool = False
) -> Array:
  """x_(n) - x_(n-1) at the best sample, 0 elsewhere; see `top_minus_second`."""
  real = rollout.sample_mask
  known = jnp.where(real, signal, -jnp.inf)
  best = masked.max(known, real, keepdims=True)
  is_best = real & (known == best)
  alone = masked.count(is_best, keepdims=True) == 1
  second = masked.max(known, real & ~is_best, keepdims=True)
  leads = is_best & alone & jnp.isfinite(second)
  lead = jnp.where(leads, best - second, 0.0)
  if not scaled:
    return lead
  return lead / (masked.std(signal, real, ddof=1, keepdims=True) + 1e-6)


def top_minus_second(scaled: bool = False, clip: float = 0.2) -> Method:
  """Only the best sample is paid, by its lead over the second best.

  A = x_(n) - x_(n-1) at the one best sample of a group and 0 elsewhere; a tie
  at the top, or a group of one, pays nobody. Summed over the group it is the
  unbiased gradient of E[max of n]: `max_at_k` at k = n with its default
  baseline. `scaled` divides it by the group's standard deviation (ddof 1).
  Source: Tang et al. 2025, Optimizing Language Models for Inference Time
  Objectives using Reinforcement Learning.
  """
  return Method(
    advantage=chain(scores(), lead_of_the_best(scaled)),
    loss=policy_gradient(
      ppo_clip(clip, clip), aggregate=prompt_mean_token_sum()
    ),
  )
