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
  """Returns (R_i - mean of the group) / (std of all R of the batch + eps).

  The standard deviation is that of the scores R themselves, not of their
  differences from the means of groups.
  """
  valid = rollout.sample_mask
  batch_std = masked.std(signal, valid, (0, 1), ddof)  # []
  centered = advantages.center(signal, valid)
  # If all scores are equal and eps is 0, 0 / 0 would be NaN.
  return jnp.where(centered == 0, 0.0, centered / (batch_std + eps))


def lite_ppo(clip: float = 0.2, ddof: int = 0, eps: float = 1e-6) -> Method:
  """A_i = (R_i - mean R) / (std of all scores of the batch + eps).

  R_i [P, S] is the score of sample i and mean R the mean of its group. All
  prompts share one standard deviation; GRPO divides by that of the group
  instead, which amplifies the advantages of prompts that are almost always or
  almost never solved. For a batch of one prompt this is the advantage of GRPO
  with the same ddof. The loss is PPO-clip, averaged over the tokens of all
  samples, without a KL.
  Open: the paper leaves open whether the standard deviation is that of the
  scores, as here, or that of the centred scores, as in some frameworks.
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
