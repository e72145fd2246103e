"""Judged thoughts: an advantage for every thought, from a judge's labels.

No registered reward calls these functions yet.
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
  """Returns the final advantage of every thought, from the labels of a judge.

    right answer   o for a good thought, o - alpha accuracy for a bad one
    wrong answer   o for a thought that led to the answer, else 0

  o is the sample's advantage, the z-score of its verdict. The advantage is the
  closed form of thought rewards summed from the end, so do not sum it again. In
  a group of right answers o = 0 and only bad thoughts get a reward; in a group
  of wrong answers all advantages are 0.

  Source: Good Learners Think Their Thinking (TP-GRPO), whose last thought
  carries the outcome alone. alpha is not known to us.

  Args:
    outcomes: `[...]` o.
    correct: `[...]` verdicts; 1 is right.
    labels: `[..., K]` bool. In a right answer, thoughts that are good; in a
      wrong one, thoughts that led to the answer.
    mask: `[..., K]` bool, mask of thoughts.
    accuracy: `[...]`, accuracy of the group, broadcast.
    alpha: charge of a bad thought at accuracy 1.

  Returns:
    `[..., K]` float32, 0 where masked.
  """
  outcomes = jnp.asarray(outcomes, jnp.float32)[..., None]
  charge = alpha * jnp.asarray(accuracy, jnp.float32)[..., None]
  right = base.is_right(correct)[..., None]
  bad = jnp.where(right, outcomes - charge, 0.0)
  return base.zero_outside(jnp.where(labels, outcomes, bad), mask)
