"""Stretching: scores that have become similar are spread within their group.

A score of meaning (an embedding's cosine, a model's grade) lies in a narrow
band once a policy writes well, and a baseline over the group then sees noise.
Stretching maps the band to [0, 1]; its weight grows with training.
`group_variance.group_variance` measures how narrow the band is.

The paper adds a textual term:
  semantic = progressively_stretched_scores(cosines, step / steps, valid)
  scores = semantic + token_f1_scores(...) + format_scores

Source: Breaking Reward Collapse (ARMed, adaptive semantic rewards). From its
abstract: the form of the stretch and of its weight are our reading.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


def stretched(
  scores: Array, valid: Array | None = None, least: float = 0.0
) -> Array:
  """(s - min) / max(max - min, least) within the group.

  The order of the scores is preserved and their range is 1. Differences without
  meaning are stretched too, unless the range of the group is below `least`.

  Args:
    scores: `[..., S]`.
    valid: `[..., S]` bool, mask of samples; None means all samples.
    least: smallest range that is stretched to 1; smaller ranges are divided by
      it.

  Returns:
    `[..., S]` float32 in [0, 1]; 0 for masked samples and if all scores of the
    group are equal.
  """
  valid = masked.mask_or_ones(jnp.asarray(scores), valid)
  scores = base.zero_outside(scores, valid)
  some = valid.any(-1, keepdims=True)
  low = base.zero_outside(masked.min(scores, valid, keepdims=True), some)
  high = base.zero_outside(masked.max(scores, valid, keepdims=True), some)
  varied = high > low
  width = jnp.maximum(jnp.where(varied, high - low, 1.0), least)
  return base.zero_outside((scores - low) / width, valid & varied)


def progressively_stretched_scores(
  scores: Array,
  progress: Array | float,
  valid: Array | None = None,
  least: float = 0.0,
) -> Array:
  """(1 - w) s + w stretched(s) with w = progress.

  Args:
    scores: `[..., S]` in [0, 1].
    progress: `[]`, progress of the training in [0, 1]; clipped.
    valid: `[..., S]` bool, mask of samples; None means all samples.
    least: same as in `stretched`.

  Returns:
    `[..., S]` float32 in the order of the scores; 0 for masked samples.
  """
  valid = masked.mask_or_ones(jnp.asarray(scores), valid)
  weight = jnp.clip(jnp.asarray(progress, jnp.float32), 0.0, 1.0)
  raw = base.zero_outside(scores, valid)
  return (1.0 - weight) * raw + weight * stretched(scores, valid, least)


@transform(takes="none", gives="sample")
def stretched_with_progress(
  _,
  rollout: types.Rollout,
  *,
  steps: int,
  component: str = "",
  least: float = 0.0,
) -> Array:
  """`progressively_stretched_scores` of the score, or of the component `component`.

  Args:
    steps: number of training steps after which scores are fully stretched.
    component: component to stretch in place of the task's score.
    least: same as in `stretched`.

  Raises:
    ValueError: `steps` is below 1.
  """
  if steps < 1:
    raise ValueError(f"steps = {steps} training steps must be at least 1")
  return progressively_stretched_scores(
    base.score(rollout, component),
    rollout.step / steps,
    rollout.sample_mask,
    least,
  )
