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
  """Gains above the noise; other steps share in the next significant gain.

  r_k = d_k if |d_k| > threshold, else gamma^{q - k} d_q for the nearest later
  step q within `look_ahead` steps with |d_q| > threshold, else `idle`. A small
  negative `idle` charges steps without a gain.

  Up to `look_ahead` idle steps before a good one are paid for it, so the
  rewards do not telescope.

  Source: Promoting Efficient Reasoning with Verifiable Stepwise Reward (VSRM),
  from memory of the paper: the constants are ours.

  Args:
    gain: `[..., K]` d, from `gains.step_gains`.
    mask: `[..., K]` bool, mask of steps; the first n of each sample.
    threshold: smallest significant gain in the chance of success. With M
      continuations the noise is about 0.5 / sqrt(M).
    gamma: decay per step.
    look_ahead: number of later steps to search.
    idle: reward of a step without any gain.

  Returns:
    `[..., K]` float32, 0 where masked.
  """
  gain = base.zero_outside(gain, mask)
  size = mask.shape[-1]
  padded = jnp.pad(gain, [(0, 0)] * (gain.ndim - 1) + [(0, look_ahead)])
  rewards = jnp.full_like(gain, idle)
  for distance in range(
    look_ahead, -1, -1
  ):  # nearer gains overwrite later ones
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
  """`significant_step_gains` of the values that the sampler computes (VSRM)."""
  mask = rollout.valid("step")
  before = rollout.extras[base.PROMPT_VALUES][:, None]  # [P, 1]
  gain = step_gains(rollout.extras[base.STEP_VALUES], before, mask)
  return significant_step_gains(gain, mask, threshold, gamma, look_ahead)
