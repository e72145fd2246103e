"""Conciseness reward: right answers earn a bonus for short reasoning."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import types
from rl.transforms import transform

Array = jax.Array


def concise_scores(
  correct: Array,
  conciseness: Array,
  anneal: Array | float = 1.0,
  difficulty: Array | float = 0.0,
  alpha: float = 1.0,
) -> Array:
  """R = 1[right] (1 + alpha c (s + d)): short reasoning counts if it is right.

  Bounded by 1 + alpha (s + d) for c in (0, 1].

  Source: Efficient Reasoning via Reward Model (CRF). The schedule of s and the
  form of d are not known to us; the group's accuracy is a natural d, as easy
  prompts need fewer words.

  Args:
    correct: `[...]` verdicts; 1 is right.
    conciseness: `[...]` c in [0.1, 1], scores of a model; read for right
      answers only.
    anneal: s, a number or an array, usually from a schedule.
    difficulty: d, broadcast against `correct`.
    alpha: weight of the bonus; 0 gives the verdict.

  Returns:
    `[...]` float32.
  """
  right = base.is_right(correct)
  bonus = alpha * base.zero_outside(conciseness, right) * (anneal + difficulty)
  return jnp.where(right, 1.0 + bonus, 0.0)


@transform(takes="none", gives="sample")
def concise(
  _, rollout: types.Rollout, *, conciseness: str, alpha: float = 1.0
) -> Array:
  """`concise_scores`; `conciseness` is the component of a model of it."""
  conciseness_scores = base.read_component(rollout, conciseness)
  return concise_scores(rollout.correct, conciseness_scores, alpha=alpha)
