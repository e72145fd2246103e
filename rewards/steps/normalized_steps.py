"""Normalized steps: step scores as z-scores over the S samples of a prompt."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


def normalize_in_group(rewards: Array, mask: Array, eps: float = 1e-6) -> Array:
  """Returns (r - mean) / (std + eps) over all steps of all samples of a group.

  The sum of the result over later steps (`credit.returns_to_go`) is the
  advantage of IGPO and of process-supervised GRPO. If all rewards of the group
  are equal, the result is 0.

  Source: Shao et al. 2024, DeepSeekMath.

  Args:
    rewards: `[..., S, K]`, rewards of K steps of S samples.
    mask: `[..., S, K]` bool, True for the steps that exist.
    eps: added to the standard deviation (ddof 0).

  Returns:
    `[..., S, K]` float32, 0 for steps that do not exist.
  """
  axes = (-2, -1)
  rewards = base.zero_outside(rewards, mask)
  varied = ~masked.is_constant(rewards, mask, axes, keepdims=True)
  spread = masked.std(rewards, mask, axes, keepdims=True)
  centered = rewards - masked.mean(rewards, mask, axes, keepdims=True)
  return jnp.where(mask & varied, centered / (spread + eps), 0.0)


@transform(takes="none", gives="step")
def normalized_steps(_, rollout: types.Rollout, *, eps: float = 1e-6) -> Array:
  """Returns `normalize_in_group` of the task's step scores."""
  return normalize_in_group(*base.step_scores(rollout), eps)
