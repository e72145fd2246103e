"""Calibrated scores: reasoning phrases raise a reward model's low scores."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import types
from rl.transforms import transform

Array = jax.Array


def calibrated_scores(
  model_scores: Array,
  pattern_scores: Array,
  below: float = 0.5,
  weight: float = 0.1,
) -> Array:
  """Returns min(1, r + weight * pattern score) if r < below, else r.

  A low score r may be a mistake of the reward model, so text with phrases of
  reasoning gets a higher score. A score just below the threshold may be raised
  above scores that exceed the threshold.

  Source: Lv et al. 2025, The Climb Carves Wisdom Deeper Than the Summit: On the
  Noisy Rewards in Learning to Reason.

  Args:
    model_scores: `[...]` r in [0, 1], scores of a reward model.
    pattern_scores: `[...]` in [0, 1], such as those of `reasoning_patterns`;
      not read where r >= below.
    below: threshold of r; the released code uses 0.5.
    weight: weight of the pattern scores; the released code uses 0.1.

  Returns:
    `[...]` float32.
  """
  model_scores = jnp.asarray(model_scores, jnp.float32)
  low = model_scores < below
  raised = model_scores + weight * base.zero_outside(pattern_scores, low)
  return jnp.where(low, jnp.minimum(raised, 1.0), model_scores)


@transform(takes="none", gives="sample")
def calibrated(
  _,
  rollout: types.Rollout,
  *,
  model: str,
  phrases: str,
  below: float = 0.5,
  weight: float = 0.1,
) -> Array:
  """Returns `calibrated_scores` of two components.

  Args:
    model: name of the component with the reward model's scores.
    phrases: name of the component with the pattern scores.
    below: scores of the reward model below this value are raised.
    weight: weight of `phrases`.
  """
  model_scores = base.read_component(rollout, model)
  pattern_scores = base.read_component(rollout, phrases)
  return calibrated_scores(model_scores, pattern_scores, below, weight)
