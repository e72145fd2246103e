"""The group's mean and the batch's spread, under a plain PPO clip."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import advantages, masked, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, scores, transform


@transform("sample")
def batch_normalize(
  signal: jax.Array, rollout: types.Rollout, *, ddof: int, eps: float
) -> jax.Array:
  """(R_i - mean of the group) / (std of the batch's raw R + eps)."""
  real = rollout.sample_mask
  spread = masked.std(signal, real, (0, 1), ddof)
  above = advantages.center(signal, real)
  return jnp.where(above == 0, 0.0, above / (spread + eps))


def lite_ppo(clip: float = 0.2, ddof: int = 0, eps: float = 1e-6) -> Method:
  """A_i = (R_i - mean R) / (std of all scores of the batch + eps).

  Token mean, PPO-clip, no KL, no filter, no critic. One spread for all prompts:
  easy and hard ones are not blown up as by GRPO's own; of a single prompt it is
  GRPO (of the same ddof). What is open: some frameworks take the spread of the
  centred scores.
  Source: Liu et al. 2025, Part I: Tricks or Traps? A Deep Dive into RL for LLM
  Reasoning.
  """
  return Method(
    advantage=chain(scores(), batch_normalize(ddof, eps)),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
