"""Trusted thoughts: a judge counts as far as it agrees with the outcomes."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


def trust(
  outcomes: Array, thought_scores: Array, valid: Array | None = None
) -> Array:
  """Trust in the thought scores of each group, by their fit to the outcomes.

  1 if the thoughts of right answers score at least as high as those of wrong
  ones, else exp(mean right - mean wrong). 0 if all answers of the group are
  right or all are wrong, since nothing can be compared.

  Source: Fan et al. 2025, SophiaVL-R1: Reinforcing MLLMs Reasoning with
  Thinking Reward (Trust-GRPO). Deviation: all samples are judged; the released
  code scores thoughts of wrong answers 0 without a judge, which biases their
  mean.

  Args:
    outcomes: `[..., S]` in [0, 1]; answers above 1/2 are right.
    thought_scores: `[..., S]` in [0, 1].
    valid: `[..., S]` bool, True if the sample exists; None: all exist.

  Returns:
    `[...]` float32 in [0, 1].
  """
  valid = masked.mask_or_ones(jnp.asarray(outcomes), valid)
  right = valid & (outcomes > 0.5)
  wrong = valid & ~right
  scores = jnp.asarray(thought_scores, jnp.float32)
  gap = masked.mean(scores, right) - masked.mean(scores, wrong)
  both = right.any(-1) & wrong.any(-1)
  return jnp.where(both, jnp.exp(jnp.minimum(gap, 0.0)), 0.0)


def trusted_scores(
  outcomes: Array,
  thought_scores: Array,
  step: Array | int,
  weight: float = 0.3,
  horizon: float = 500.0,
  valid: Array | None = None,
) -> Array:
  """R = R_o + trust e^{-step / horizon} weight R_t.

  If right and wrong answers receive equal thought scores, a verbose thought
  still gains `weight` at the start; the annealing removes this.

  Source: Fan et al. 2025 (SophiaVL-R1) and its code (0.3, 500).

  Args:
    outcomes: `[..., S]` in [0, 1]; answers above 1/2 are right.
    thought_scores: `[..., S]` in [0, 1].
    step: training step.
    weight: weight of the thought at step 0.
    horizon: number of steps after which the weight has fallen to 1/e.
    valid: `[..., S]` bool, True if the sample exists; None: all exist.

  Returns:
    `[..., S]` float32; 0 for masked samples.
  """
  valid = masked.mask_or_ones(jnp.asarray(outcomes), valid)
  used = trust(outcomes, thought_scores, valid)[..., None]
  fade = weight * jnp.exp(-jnp.asarray(step, jnp.float32) / horizon)
  thoughts = base.zero_outside(thought_scores, valid & (used > 0))
  return base.zero_outside(outcomes, valid) + used * fade * thoughts


@transform(takes="none", gives="sample")
def trusted(
  _,
  rollout: types.Rollout,
  *,
  thoughts: str,
  weight: float = 0.3,
  horizon: float = 500.0,
) -> Array:
  """`trusted_scores`; `thoughts` is the component of a judge of reasoning."""
  right = (rollout.correct == 1).astype(jnp.float32)
  return trusted_scores(
    right,
    base.read_component(rollout, thoughts),
    rollout.step,
    weight,
    horizon,
    rollout.sample_mask,
  )
