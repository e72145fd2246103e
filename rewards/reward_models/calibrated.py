"""Calibrated scores: phrases of reasoning raise a reward model's low scores."""

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
  """min(1, r + weight pattern) if r < below, else r.

  The rejection of an answer may be a mistake of the reward model, so text that
  sounds like reasoning receives a higher score. Just below the threshold,
  phrases alone raise a text above the scores just above the threshold.

  Source: Lv et al. 2025, The Climb Carves Wisdom Deeper Than the Summit: On the
  Noisy Rewards in Learning to Reason.

  Args:
    model_scores: `[...]` r in [0, 1].
    pattern_scores: `[...]` in [0, 1]; read for r < below only.
    below: the code uses 0.5.
    weight: the code uses 0.1.

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
    model: component of a reward model.
    phrases: component of `reasoning_patterns`.
    below: scores of the reward model below this value are raised.
    weight: weight of `phrases`.
  """
  model_scores = base.read_component(rollout, model)
  pattern_scores = base.read_component(rollout, phrases)
  return calibrated_scores(model_scores, pattern_scores, below, weight)
