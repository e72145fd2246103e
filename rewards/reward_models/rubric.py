"""Rubric reward: the share of a rubric's criteria that an answer satisfies.

`rewards.verifiers.rubric` has a judge that reads answers and rubrics.

No registered reward calls this function yet.
"""

from __future__ import annotations

import jax

from rl import masked

Array = jax.Array


def fraction_satisfied(satisfied: Array, criteria: Array) -> Array:
  """Returns the share of a rubric's criteria that a judge calls satisfied.

  Source: Jayalath et al. 2025, Compute as Teacher: Turning Inference Compute
  into Reference-Free Supervision. In the paper a model that reads all samples
  of the group writes the criteria.

  Args:
    satisfied: `[..., C]` bool or 0/1, the judge's verdict on C criteria.
    criteria: `[..., C]` bool, True for the criteria that exist.

  Returns:
    `[...]` float32 in [0, 1]; 0 for a rubric without criteria.
  """
  return masked.mean(satisfied, criteria)
