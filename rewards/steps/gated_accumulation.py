"""Gated accumulation: dense rewards that count if all higher levels succeed.

Rewards of an agent have I levels of rising priority, such as the format of a
call, its result, and the outcome of the trajectory.

No registered reward calls this function yet.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base

Array = jax.Array


def gated_accumulation(
  rewards: Array, levels: Array, thresholds: Array, mask: Array
) -> Array:
  """Sums step rewards of several levels, each gated by all higher levels.

  r_t = sum_i 1[R_j > v_j for all levels j > i] r_{i,t}, with R_j the reward of
  level j for the whole trajectory and v_j its threshold. The last level (the
  outcome) always counts; the level before it counts if the outcome exceeds its
  threshold, and so on. Give a trajectory that timed out the lowest outcome.

  If thresholds are too low, the lower levels dominate; if they are too high,
  the lower levels never count.

  Source: Stabilizing Long-term Multi-turn Reinforcement Learning with Gated
  Rewards (G-RA).

  Open: the thresholds of the paper are unknown.

  Args:
    rewards: `[..., I, T]`, reward of each of I levels at each of T steps.
    levels: `[..., I]` R, reward of each level for the whole trajectory.
    thresholds: `[I]` v, broadcast against `levels`; the first one is not used.
    mask: `[..., T]` bool, True for the steps that exist.

  Returns:
    `[..., T]` float32, 0 for steps that do not exist.
  """
  exceeds = levels > thresholds  # False for NaN
  # A level counts if all later levels exceed their thresholds.
  later = jnp.concatenate(
    [exceeds[..., 1:], jnp.ones_like(exceeds[..., :1])], -1
  ).astype(jnp.int32)
  counts = jax.lax.cummin(later, axis=later.ndim - 1, reverse=True) > 0
  included = counts[..., None] & mask[..., None, :]  # [..., I, T]
  return base.zero_outside(rewards, included).sum(-2)
