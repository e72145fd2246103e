"""Lite PPO: the mean of the group, the standard deviation of the batch.

Axes: P prompts, S samples per prompt (a group).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import advantages, masked, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, scores, transform


@transform(takes="sample")
def batch_normalize(
  signal: jax.Array, rollout: types.Rollout, *, ddof: int, eps: float
) -> jax.Array:
  """(R_i - mean of the group) / (std of the batch's uncentred R + eps)."""
  valid = rollout.sample_mask
  spread = masked.std(signal, valid, (0, 1), ddof)  # []
  centered = advantages.center(signal, valid)
  # If all scores are equal and eps is 0, 0 / 0 would be NaN.
  return jnp.where(centered == 0, 0.0, centered / (spread + eps))


def lite_ppo(clip: float = 0.2, ddof: int = 0, eps: float = 1e-6) -> Method:
  """A_i = (R_i - mean R) / (std of all scores of the batch + eps).

  R_i [P, S] is the score of sample i and mean R the mean of its group, the
  samples of one prompt. All prompts share one standard deviation, so easy and
  hard prompts, whose scores vary little, are not amplified as in GRPO; for a
  batch of one prompt this is GRPO with the same ddof. The loss is PPO-clip,
  averaged over tokens, without KL, filter or critic.
  Open: some frameworks take the standard deviation of the centred scores.
  Source: Liu et al. 2025, Part I: Tricks or Traps? A Deep Dive into RL for LLM
  Reasoning.

  Args:
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    ddof: the variance of the batch is divided by its number of samples - ddof.
    eps: constant added to the standard deviation.
  """
  return Method(
    advantage=chain(scores(), batch_normalize(ddof, eps)),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
