"""Significant gains: changes of the chance of success that exceed the noise."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rewards.steps.gains import step_gains
from rl import types
from rl.transforms import transform

Array = jax.Array


def significant_step_gains(
  gain: Array,
  mask: Array,
  threshold: float = 0.1,
  gamma: float = 0.9,
  look_ahead: int = 3,
  idle: float = 0.0,
) -> Array:
  """Returns gains above a threshold, which steps before them share.

  d_k is the gain of step k; it is significant if |d_k| > threshold. The reward
  is d_k for a significant gain. Otherwise it is gamma^{q - k} d_q, where q is
  the next step with a significant gain, at most `look_ahead` steps later; if
  there is none, it is `idle`. As several steps share one gain, the sum of the
  rewards is not the total gain.

  Source: Promoting Efficient Reasoning with Verifiable Stepwise Reward (VSRM).

  Open: written from memory of the paper; the constants are guesses.

  Args:
    gain: `[..., K]` d, gains of K steps from `gains.step_gains`.
    mask: `[..., K]` bool, True for the steps that exist, which are the first of
      each sample.
    threshold: a gain in the chance of success is significant above it. The
      standard error of a chance from M continuations is up to 0.5 / sqrt(M).
    gamma: decay per step.
    look_ahead: number of later steps to search.
    idle: reward of a step without a significant gain at or after it.

  Returns:
    `[..., K]` float32, 0 for steps that do not exist.
  """
  gain = base.zero_outside(gain, mask)
  size = mask.shape[-1]
  padded = jnp.pad(gain, [(0, 0)] * (gain.ndim - 1) + [(0, look_ahead)])
  rewards = jnp.full_like(gain, idle)
  # From far to near, so that the next significant gain overwrites later ones.
  for distance in range(look_ahead, -1, -1):
    later = padded[..., distance : distance + size]
    significant = jnp.abs(later) > threshold
    rewards = jnp.where(significant, gamma**distance * later, rewards)
  return base.zero_outside(rewards, mask)


@transform(
  takes="none", gives="step", needs=(base.STEP_VALUES, base.PROMPT_VALUES)
)
def significant_gains(
  _,
  rollout: types.Rollout,
  *,
  threshold: float = 0.1,
  gamma: float = 0.9,
  look_ahead: int = 3,
) -> Array:
  """Returns `significant_step_gains` of the values of `prefix_values`."""
  mask = rollout.valid("step")
  before = rollout.extras[base.PROMPT_VALUES][:, None]  # [P, 1]
  gain = step_gains(rollout.extras[base.STEP_VALUES], before, mask)
  return significant_step_gains(gain, mask, threshold, gamma, look_ahead)
