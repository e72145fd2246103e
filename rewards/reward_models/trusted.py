"""Trusted thoughts: a judge's scores, weighted by their fit to the outcomes."""

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
  """Returns the weight of each group's thought scores, by the outcomes.

  A group is the S samples of one prompt. The trust is 1 if the mean thought
  score of right answers is at least that of wrong answers, else exp(mean over
  right - mean over wrong). It is 0 if all answers of the group are right or all
  are wrong, because the means cannot be compared.

  Source: Fan et al. 2025, SophiaVL-R1: Reinforcing MLLMs Reasoning with
  Thinking Reward (Trust-GRPO). Deviation: the released code scores thoughts of
  wrong answers 0 without a judge, which biases their mean; this implementation
  expects a judge's score of every sample.

  Args:
    outcomes: `[..., S]` in [0, 1]; answers above 1/2 are right.
    thought_scores: `[..., S]` in [0, 1], scores by a judge.
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
  """Returns outcome + `trust` * e^{-step / horizon} * weight * thought score.

  Scores of thoughts count up to `weight` at the start of training, and less and
  less later.

  Source: Fan et al. 2025 (SophiaVL-R1) and its released code (weight 0.3,
  horizon 500).

  Args:
    outcomes: `[..., S]` in [0, 1]; answers above 1/2 are right.
    thought_scores: `[..., S]` in [0, 1], scores by a judge.
    step: training step.
    weight: weight of the thought at step 0.
    horizon: number of training steps after which the weight has fallen to 1/e.
    valid: `[..., S]` bool, True if the sample exists; None: all exist.

  Returns:
    `[..., S]` float32; 0 for samples that do not exist.
  """
  valid = masked.mask_or_ones(jnp.asarray(outcomes), valid)
  group_trust = trust(outcomes, thought_scores, valid)[..., None]
  annealed = weight * jnp.exp(-jnp.asarray(step, jnp.float32) / horizon)
  thoughts = base.zero_outside(thought_scores, valid & (group_trust > 0))
  return base.zero_outside(outcomes, valid) + group_trust * annealed * thoughts


@transform(takes="none", gives="sample")
def trusted(
  _,
  rollout: types.Rollout,
  *,
  thoughts: str,
  weight: float = 0.3,
  horizon: float = 500.0,
) -> Array:
  """Returns `trusted_scores`, with outcome 1 for right answers, else 0.

  Args:
    thoughts: name of the component with a judge's scores of the thoughts.
    weight: weight of the thought scores at step 0.
    horizon: same as in `trusted_scores`.
  """
  right = (rollout.correct == 1).astype(jnp.float32)
  return trusted_scores(
    right,
    base.read_component(rollout, thoughts),
    rollout.step,
    weight,
    horizon,
    rollout.sample_mask,
  )
