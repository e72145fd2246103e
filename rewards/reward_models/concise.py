"""Conciseness reward: right answers earn a bonus for short reasoning."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


def concise_scores(
  correct: Array,
  conciseness: Array,
  anneal: Array | float = 1.0,
  difficulty: Array | float = 0.0,
  alpha: float = 1.0,
) -> Array:
  """Returns 1 + alpha * c * (s + d) for right answers, else 0.

  c is the conciseness of the reasoning, s a number that changes during training
  and d a number that depends on the prompt.

  Source: Efficient Reasoning via Reward Model (CRF).

  Open: the schedule of s and the form of d are unknown.

  Args:
    correct: `[...]` verdicts; 1 is right, others count as wrong.
    conciseness: `[...]` c in [0.1, 1], scores of a model; not read for answers
      that are not right.
    anneal: s, a number or an array, usually from a schedule.
    difficulty: d, broadcast against `correct`.
    alpha: weight of the bonus.

  Returns:
    `[...]` float32.
  """
  right = base.is_right(correct)
  bonus = alpha * base.zero_outside(conciseness, right) * (anneal + difficulty)
  return jnp.where(right, 1.0 + bonus, 0.0)


@transform(takes="none", gives="sample")
def concise(
  _,
  rollout: types.Rollout,
  *,
  conciseness: str,
  alpha: float = 1.0,
  horizon: float = 0.0,
  by_accuracy: float = 0.0,
) -> Array:
  """Returns `concise_scores`, with s by the training step and d by the group.

    s = min(step / horizon, 1)
    d = by_accuracy * (share of right samples in the group)

  Early in training the bonus is small, so that the policy first learns to be
  right; easy prompts, which need few words, have a larger one.

  Args:
    conciseness: name of the component with the conciseness scores.
    alpha: weight of the bonus.
    horizon: training steps until s is 1; 0 makes it 1 from the beginning.
    by_accuracy: d of a group whose samples are all right.
  """
  conciseness_scores = base.read_component(rollout, conciseness)
  anneal = jnp.minimum(rollout.step / horizon, 1.0) if horizon else 1.0
  right = base.is_right(rollout.correct)
  accuracy = masked.mean(right, rollout.sample_mask, keepdims=True)
  return concise_scores(
    rollout.correct, conciseness_scores, anneal, by_accuracy * accuracy, alpha
  )
