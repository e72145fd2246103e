"""Instead of nothing: answers that are not right earn a little for phrases."""

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
  """Returns 1 for right answers, weight times the pattern score for all others.

  Source: Lv et al. 2025, The Climb Carves Wisdom Deeper Than the Summit: On the
  Noisy Rewards in Learning to Reason, its variant with a verifier. The paper's
  weight is not known to us: 0.1 is that of `calibrated_scores`, and below 1
  right answers stay best.

  Args:
    correct: `[...]` verdicts; 1 is right.
    pattern_scores: `[...]` in [0, 1]; read for answers that are not right only.
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
  """Returns `instead_of_nothing_scores`; `phrases` is a component.

  Usually it is the component of `reasoning_patterns`.
  """
  scores = base.read_component(rollout, phrases)
  return instead_of_nothing_scores(rollout.correct, scores, weight)
