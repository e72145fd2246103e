"""Combination Training: pass@k on easy prompts, pass@1 on hard ones."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rl import masked, objectives, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, scores, transform


def accuracy(share: jax.Array) -> jax.Array:
  """The paper's blend: pass@k counts as much as the prompt is solved."""
  return share


@transform("sample")
def blend_with_pass_at_1(
  signal: jax.Array,
  rollout: types.Rollout,
  *,
  k: int,
  blend: Callable[[jax.Array], jax.Array],
) -> jax.Array:
  """b A_pass@k + (1 - b) A_pass@1, b = blend(mean score of the group)."""
  valid = rollout.sample_mask
  share = blend(masked.mean(signal, valid, keepdims=True))
  many = objectives.pass_at_k_advantages(signal, k, valid)
  one = objectives.pass_at_k_advantages(signal, 1, valid)
  return jnp.where(valid, share * many + (1 - share) * one, 0.0)


def pass_at_k_combination(
  k: int = 4,
  blend: Callable[[jax.Array], jax.Array] = accuracy,
  low: float = 0.2,
  high: float = 0.28,
) -> Method:
  """A_i = c/n A_pass@k + (1 - c/n) A_pass@1, c of n samples right.

  Hard prompts learn at the pace of pass@1; easy ones are left alone as by
  pass@k, and a saturated one (n - c < k) keeps (1 - c/n) A_pass@1. Both
  advantages are analytic, `pass_at_k` with k and with 1 (GRPO, ddof 0).
  `blend` maps c/n to the weight of pass@k, for other mixtures. Scores are in
  [0, 1], and c/n is their mean.
  Source: Chen et al. 2025, Pass@k Training, section 4.2.2.
  """
  return Method(
    advantage=chain(scores(), blend_with_pass_at_1(k, blend)),
    loss=policy_gradient(ppo_clip(low, high)),
  )
