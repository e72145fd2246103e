"""Instead of nothing: answers that are not right score a little for phrases."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import types
from rl.transforms import transform

Array = jax.Array


def instead_of_nothing_scores(
  correct: Array, pattern_scores: Array, weight: float = 0.1
) -> Array:
  """Returns 1 for right answers, weight * pattern score for all others.

  Source: Lv et al. 2025, The Climb Carves Wisdom Deeper Than the Summit: On the
  Noisy Rewards in Learning to Reason, its variant with a verifier.

  Open: the weight of the paper is unknown; 0.1 is that of `calibrated_scores`.
  With a weight below 1 right answers score most.

  Args:
    correct: `[...]` verdicts; 1 is right, others are wrong or unknown.
    pattern_scores: `[...]` in [0, 1]; not read for right answers.
    weight: weight of the pattern scores.

  Returns:
    `[...]` float32.
  """
  right = base.is_right(correct)
  return jnp.where(
    right, 1.0, weight * base.zero_outside(pattern_scores, ~right)
  )


@transform(takes="none", gives="sample")
def instead_of_nothing(
  _, rollout: types.Rollout, *, phrases: str, weight: float = 0.1
) -> Array:
  """Returns `instead_of_nothing_scores`.

  Args:
    phrases: name of the component with the pattern scores, usually that of
      `reasoning_patterns`.
    weight: weight of the pattern scores.
  """
  scores = base.read_component(rollout, phrases)
  return instead_of_nothing_scores(rollout.correct, scores, weight)
