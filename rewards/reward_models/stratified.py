"""Stratified scores: a reward model grades within the bands of a verifier.

The scores of a reward model are mapped to one narrow band for right answers and
another one for wrong answers, so no wrong answer scores above a right one.

Multiply advantages, not scores, by `prompt_weights`: a factor per prompt
cancels when scores are divided by the group's standard deviation.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


def stratified_scores(
  correct: Array,
  model_scores: Array,
  alpha: float = 0.05,
  beta: float = 0.05,
  valid: Array | None = None,
  eps: float = 1e-6,
) -> Array:
  """Model scores, min-max normalized among right and among wrong answers.

    wrong  -alpha + 2 alpha u,   right  (1 - beta) + 2 beta u,
    u = (m - min) / (max - min + eps) over the group's right or wrong answers

  The two bands do not overlap while alpha + beta < 1. u = 0 if there is only
  one answer of a kind, or if all their scores are equal. Rescaling the model
  makes no difference (up to eps).

  Source: Tao et al. 2025, Hybrid Reinforcement: When Reward Is Sparse, It's
  Better to Be Dense (HERO): 0.05 for verifiable tasks, 0.1 for mixed ones.

  Args:
    correct: `[..., S]` verdicts; 1 is right, all others count as wrong.
    model_scores: `[..., S]` m, scores of a reward model.
    alpha: half the width of the band of wrong answers.
    beta: half the width of the band of right answers.
    valid: `[..., S]` bool, True if the sample exists; None: all exist.
    eps: added to max - min.

  Returns:
    `[..., S]` float32; 0 for masked samples.
  """
  valid = masked.mask_or_ones(jnp.asarray(correct), valid)
  right = base.is_right(correct) & valid
  scores = base.zero_outside(model_scores, valid)

  def unit(stratum: Array) -> Array:
    some = stratum.any(-1, keepdims=True)
    low = base.zero_outside(masked.min(scores, stratum, keepdims=True), some)
    high = base.zero_outside(masked.max(scores, stratum, keepdims=True), some)
    return (scores - low) / (high - low + eps)

  graded = jnp.where(
    right,
    1.0 - beta + 2.0 * beta * unit(right),
    -alpha + 2.0 * alpha * unit(valid & ~right),
  )
  return jnp.where(valid, graded, 0.0)


def prompt_weights(
  model_scores: Array,
  usual: Array | float,
  low: float = 0.4,
  high: float = 3.0,
  steepness: float = 6.0,
  valid: Array | None = None,
) -> Array:
  """Weights of prompts, larger if the model separates their samples well.

  w = low + (high - low) sigmoid(steepness (std - usual)), with the std (ddof 0)
  of the model's scores in the group.

  Source: Tao et al. 2025 (HERO).

  Args:
    model_scores: `[..., S]`.
    usual: `[]`, running mean of std over batches.
    low: the paper's w_min.
    high: the paper's w_max.
    steepness: the paper's k.
    valid: `[..., S]` bool, True if the sample exists; None: all exist.

  Returns:
    `[...]` float32 in (low, high).
  """
  valid = masked.mask_or_ones(jnp.asarray(model_scores), valid)
  spread = masked.std(base.zero_outside(model_scores, valid), valid)
  return low + (high - low) * jax.nn.sigmoid(steepness * (spread - usual))


@transform(takes="none", gives="sample")
def stratified(
  _,
  rollout: types.Rollout,
  *,
  model: str,
  alpha: float = 0.05,
  beta: float = 0.05,
) -> Array:
  """Returns `stratified_scores`; `model` is the component of a reward model."""
  scores = base.read_component(rollout, model)
  return stratified_scores(
    rollout.correct, scores, alpha, beta, rollout.sample_mask
  )
