"""Rubric reward: the share of a rubric's criteria that an answer satisfies.

No registered reward calls these functions yet.
"""

from __future__ import annotations

import jax

from rewards import base
from rl import masked

Array = jax.Array


def fraction_satisfied(satisfied: Array, criteria: Array) -> Array:
  """Returns the share of a rubric's criteria that a judge calls satisfied.

  Source: Jayalath et al. 2025, Compute as Teacher: Turning Inference Compute
  into Reference-Free Supervision, where the anchor wrote the criteria.

  Args:
    satisfied: `[..., C]` bool or 0/1.
    criteria: `[..., C]` bool, mask of criteria.

  Returns:
    `[...]` float32 in {0, 1/n, ..., 1}; 0 for an empty rubric.
  """
  return masked.mean(base.zero_outside(satisfied, criteria), criteria)
