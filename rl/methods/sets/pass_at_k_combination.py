"""Combination Training: pass@k on easy prompts, pass@1 on hard ones.

Axes: P prompts, S samples per prompt (a group).
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rl import best_of_k, masked, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, scores, transform


def accuracy(solve_rate: jax.Array) -> jax.Array:
  """Returns the weight of pass@k in the paper: the solve rate itself."""
  return solve_rate


@transform(takes="sample")
def blend_with_pass_at_1(
  signal: jax.Array,
  rollout: types.Rollout,
  *,
  k: int,
  blend: Callable[[jax.Array], jax.Array],
) -> jax.Array:
  """b A_pass@k + (1 - b) A_pass@1, with b = blend(mean score of the group)."""
  valid = rollout.sample_mask
  weight = blend(masked.mean(signal, valid, keepdims=True))  # [P, 1]
  pass_at_k = best_of_k.pass_at_k_advantages(signal, k, valid)
  pass_at_1 = best_of_k.pass_at_k_advantages(signal, 1, valid)
  blended = weight * pass_at_k + (1 - weight) * pass_at_1
  return jnp.where(valid, blended, 0.0)


def pass_at_k_combination(
  k: int = 4,
  blend: Callable[[jax.Array], jax.Array] = accuracy,
  low: float = 0.2,
  high: float = 0.28,
) -> Method:
  """A_i = c/n A_pass@k + (1 - c/n) A_pass@1, c of n samples of the group right.

  A_pass@k [P, S] is the analytic advantage of `pass_at_k`; A_pass@1 is that of
  GRPO with ddof 0. On hard prompts, where c/n is small, A is almost A_pass@1.
  On easy prompts it is small: in a group with n - c < k, A_pass@k is 0, and A =
  (1 - c/n) A_pass@1. Scores must be in [0, 1]; c/n is their mean. The loss is
  PPO-clip, averaged over the tokens of all samples.
  Source: Chen et al. 2025, Pass@k Training, section 4.2.2.

  Args:
    k: size of the subsets.
    blend: function from c/n [P, 1] to the weight of A_pass@k; the default
      returns c/n.
    low, high: clip range [1 - low, 1 + high] of the importance ratio.
  """
  return Method(
    advantage=chain(scores(), blend_with_pass_at_1(k, blend)),
    loss=policy_gradient(ppo_clip(low, high)),
  )
