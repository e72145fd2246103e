"""Stretching: scores that have become similar are spread within their group.

A semantic score (the cosine of two embeddings, the grade of a judge) lies in a
narrow range once a policy writes well, so that its differences within a group,
the S samples of one prompt, are small. Stretching maps the range of the group
to [0, 1]; its weight grows during training. `group_variance.group_variance`
measures how narrow the range is.

The paper adds a score of the words and one of the format:
  semantic = progressively_stretched_scores(cosines, step / steps, valid)
  scores = semantic + token_f1_scores(...) + format_scores

Source: Breaking Reward Collapse (ARMed, adaptive semantic rewards).

Open: implemented from the abstract; the form of the stretch and of its weight
is a guess.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import UsageError, masked, types
from rl.transforms import transform

Array = jax.Array


def stretched(
  scores: Array, valid: Array | None = None, least: float = 0.0
) -> Array:
  """Returns (score - lowest) / max(highest - lowest, least) within the group.

  The order of the scores is preserved. The result has the range 1 if the range
  of the scores is at least `least`, which limits how much noise is stretched.

  Args:
    scores: `[..., S]`, one score per sample of a group.
    valid: `[..., S]` bool, True if the sample exists; None: all exist.
    least: smallest range that is stretched to 1; smaller ranges are divided by
      it.

  Returns:
    `[..., S]` float32 in [0, 1]; 0 for samples that do not exist and if all
    scores of the group are equal.
  """
  valid = masked.mask_or_ones(jnp.asarray(scores), valid)
  scores = base.zero_outside(scores, valid)
  low = masked.min(scores, valid, keepdims=True)
  high = masked.max(scores, valid, keepdims=True)
  varied = high > low
  width = jnp.maximum(jnp.where(varied, high - low, 1.0), least)
  return base.zero_outside((scores - low) / width, valid & varied)


def progressively_stretched_scores(
  scores: Array,
  progress: Array | float,
  valid: Array | None = None,
  least: float = 0.0,
) -> Array:
  """Returns (1 - w) * score + w * `stretched` score, with w = progress.

  Args:
    scores: `[..., S]` in [0, 1].
    progress: `[]`, progress of the training, clipped to [0, 1].
    valid: `[..., S]` bool, True if the sample exists; None: all exist.
    least: same as in `stretched`.

  Returns:
    `[..., S]` float32, in the same order as the scores; 0 for samples that do
    not exist.
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
  """Returns `progressively_stretched_scores` of the score or of a component.

  Args:
    steps: number of training steps after which scores are fully stretched.
    component: name of the component to stretch; "" is the task's score.
    least: same as in `stretched`.

  Raises:
    UsageError: `steps` is below 1.
  """
  if steps < 1:
    raise UsageError(f"steps = {steps} training steps must be at least 1")
  return progressively_stretched_scores(
    base.score(rollout, component),
    rollout.step / steps,
    rollout.sample_mask,
    least,
  )
