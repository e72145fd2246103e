"""Gated accumulation: dense rewards count if all higher levels succeed (G-RA).

No registered reward calls these functions yet.
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

  r_t = sum_i 1[R^(j) > v_j for all j > i] r_t^(i), with levels in rising
  priority. The last level (the outcome) always counts; the one before it counts
  if the outcome exceeds its threshold, and so on. A trajectory that timed out
  has failed: give it the lowest outcome.

  With thresholds that are too low the dense levels dominate, with thresholds
  that are too high they are unused; the paper's values are not known to us.

  Source: Stabilizing Long-term Multi-turn Reinforcement Learning with Gated
  Rewards (G-RA).

  Args:
    rewards: `[..., I, T]`, rewards of each level at each step or token.
    levels: `[..., I]` R^(i) of the whole trajectory.
    thresholds: `[I]` v, broadcast against `levels`; the first one is not used.
    mask: `[..., T]` bool, mask of steps.

  Returns:
    `[..., T]` float32, 0 where masked.
  """
  exceeds = levels > thresholds  # False for NaN
  # A level counts if all later levels exceed their thresholds.
  later = jnp.concatenate(
    [exceeds[..., 1:], jnp.ones_like(exceeds[..., :1])], -1
  ).astype(jnp.int32)
  counts = jax.lax.cummin(later, axis=later.ndim - 1, reverse=True) > 0
  included = counts[..., None] & mask[..., None, :]  # [..., I, T]
  return base.zero_outside(rewards, included).sum(-2)
