"""Scores that have grown too alike, pulled apart within their group.

A score of meaning (an embedding's cosine, a model's grade) lies in a narrow
band once a policy writes well, and a group's baseline then sees noise.
Stretching gives the band the width of 1; how much of that is taken grows with
training. `group_variance` says how narrow it is.

Usage, with the textual term of the same paper beside it:
  semantic = spread.stretched_with_progress(cosines, step / steps, valid)
  scores = semantic + overlap.token_f1(...) + format_scores

Source: Breaking Reward Collapse (ARMed, adaptive semantic rewards). From its
abstract: the form of the stretch and of its weight are our reading.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards.inputs import present
from rl import masked

Array = jax.Array


def stretched(
  scores: Array, valid: Array | None = None, least: float = 0.0
) -> Array:
  """(s - min) / max(max - min, least) within the group: order kept, width 1.

  A group of equal scores is 0. Its weakness is what it is for: differences of
  no meaning are pulled apart as well; those below `least` are not.

  Args:
    scores: `[..., S]`.
    valid: `[..., S]` bool, samples that exist; None keeps all.
    least: width from which on it is stretched to 1, in units of the score.

  Returns:
    `[..., S]` float32 in [0, 1], 0 of what is invalid.
  """
  valid = masked.all_valid(jnp.asarray(scores), valid)
  scores = present(scores, valid)
  some = valid.any(-1, keepdims=True)
  low = present(masked.min(scores, valid, keepdims=True), some)
  high = present(masked.max(scores, valid, keepdims=True), some)
  varied = high > low
  width = jnp.maximum(jnp.where(varied, high - low, 1.0), least)
  return present((scores - low) / width, valid & varied)


def stretched_with_progress(
  scores: Array,
  progress: Array | float,
  valid: Array | None = None,
  least: float = 0.0,
) -> Array:
  """(1 - w) s + w stretched(s), w = progress: raw at first, stretched at last.

  Args:
    scores: `[..., S]`, on the scale [0, 1].
    progress: `[]` of the training, in [0, 1]; clipped.
    valid: `[..., S]` bool, samples that exist; None keeps all.
    least: as of `stretched`.

  Returns:
    `[..., S]` float32, in the order of the scores; 0 of what is invalid.
  """
  valid = masked.all_valid(jnp.asarray(scores), valid)
  weight = jnp.clip(jnp.asarray(progress, jnp.float32), 0.0, 1.0)
  raw = present(scores, valid)
  return (1.0 - weight) * raw + weight * stretched(scores, valid, least)


def group_variance(scores: Array, valid: Array | None = None) -> Array:
  """The variance (ddof 0) of each group's scores: how steep the objective is.

  A reward that hardly varies under the policy is a flat one, however well it
  ranks: compare two reward models by the mean of it over the same prompts.

  Source: Razin et al. 2025, What Makes a Reward Model a Good Teacher?

  Args:
    scores: `[..., S]`.
    valid: `[..., S]` bool, samples that exist; None keeps all.

  Returns:
    `[...]` float32, 0 of equal scores.
  """
  valid = masked.all_valid(jnp.asarray(scores), valid)
  return masked.std(present(scores, valid), valid) ** 2
