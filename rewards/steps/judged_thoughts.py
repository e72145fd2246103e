"""Judged thoughts: an advantage for every thought, from labels by a judge.

A thought is a reasoning step; K is the number of thoughts of a sample.

No registered reward calls this function yet.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base

Array = jax.Array


def judged_thoughts(
  outcomes: Array,
  correct: Array,
  labels: Array,
  mask: Array,
  accuracy: Array,
  alpha: float = 1.0,
) -> Array:
  """Returns the advantage of every thought, from the labels of a judge.

    right answer   o for a good thought, o - alpha * accuracy for a bad one
    wrong answer   o for a thought that led to the answer, else 0

  o is the z-score of the sample's verdict within its group, the samples of one
  prompt; accuracy is the group's share of right answers. The advantage already
  contains the rewards of later thoughts, so do not sum it over them. If all
  answers of a group are right, o = 0 and only bad thoughts have an advantage
  other than 0; if all are wrong, all advantages are 0.

  Source: Good Learners Think Their Thinking (TP-GRPO). In the paper the last
  thought carries only the outcome.

  Open: the paper's alpha is unknown; 1 is a guess.

  Args:
    outcomes: `[...]` o, z-score of each sample's verdict.
    correct: `[...]` verdicts; 1 is right, others count as wrong.
    labels: `[..., K]` bool. In a right answer, True for good thoughts; in a
      wrong one, True for thoughts that led to the answer.
    mask: `[..., K]` bool, True for the thoughts that exist.
    accuracy: `[...]`, accuracy of the group, broadcast.
    alpha: charge for a bad thought in a group of accuracy 1.

  Returns:
    `[..., K]` float32, 0 for thoughts that do not exist.
  """
  outcomes = jnp.asarray(outcomes, jnp.float32)[..., None]
  charge = alpha * jnp.asarray(accuracy, jnp.float32)[..., None]
  right = base.is_right(correct)[..., None]
  unlabeled = jnp.where(
    right, outcomes - charge, 0.0
  )  # where `labels` is False
  return base.zero_outside(jnp.where(labels, outcomes, unlabeled), mask)
