"""Stratified scores: model scores, mapped to separate bands by the verdict.

The scores of a reward model are mapped to one narrow band for right answers and
to a lower band for wrong answers, so no wrong answer scores above a right one.

The method `hero` multiplies the advantages of these scores by a weight for each
prompt, which would cancel if it multiplied the scores.
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
  """Returns model scores, mapped to a band by the verdict and min-max scaled.

    wrong  -alpha + 2 alpha u,   right  (1 - beta) + 2 beta u,
    u = (m - min) / (max - min + eps)

  m is the model's score; min and max are taken over the right answers of the
  group for a right answer, and over the wrong answers for a wrong one. If there
  is only one such answer, or if all their scores are equal, u = 0. The bands do
  not overlap if alpha + beta < 1. Rescaling the model's scores makes no
  difference (up to eps).

  Source: Tao et al. 2025, Hybrid Reinforcement: When Reward Is Sparse, It's
  Better to Be Dense (HERO), with alpha and beta 0.05 for verifiable tasks and
  0.1 for mixed ones.

  Args:
    correct: `[..., S]` verdicts; 1 is right, all others count as wrong.
    model_scores: `[..., S]` m, scores of a reward model.
    alpha: half the width of the band of wrong answers.
    beta: half the width of the band of right answers.
    valid: `[..., S]` bool, True if the sample exists; None: all exist.
    eps: added to max - min.

  Returns:
    `[..., S]` float32; 0 for samples that do not exist.
  """
  valid = masked.mask_or_ones(jnp.asarray(correct), valid)
  right = base.is_right(correct) & valid
  scores = base.zero_outside(model_scores, valid)

  def scale(stratum: Array) -> Array:
    """Returns u for the samples in the mask `stratum`, `[..., S]`."""
    has_samples = stratum.any(-1, keepdims=True)
    low = masked.min(scores, stratum, keepdims=True)
    high = masked.max(scores, stratum, keepdims=True)
    low = base.zero_outside(low, has_samples)
    high = base.zero_outside(high, has_samples)
    return (scores - low) / (high - low + eps)

  graded = jnp.where(
    right,
    1.0 - beta + 2.0 * beta * scale(right),
    -alpha + 2.0 * alpha * scale(valid & ~right),
  )
  return jnp.where(valid, graded, 0.0)


@transform(takes="none", gives="sample")
def stratified(
  _,
  rollout: types.Rollout,
  *,
  model: str,
  alpha: float = 0.05,
  beta: float = 0.05,
) -> Array:
  """Returns `stratified_scores`; `model` names a reward model's component."""
  scores = base.read_component(rollout, model)
  return stratified_scores(
    rollout.correct, scores, alpha, beta, rollout.sample_mask
  )
