"""Group variance: the variance of a reward model's scores within a group.

No registered reward calls this function yet.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked

Array = jax.Array


def group_variance(scores: Array, valid: Array | None = None) -> Array:
  """Returns the variance (ddof 0) of each group's scores.

  If the rewards of a policy's samples hardly vary, gradients are small, however
  accurate the reward model is. To compare two reward models, compare the means
  of this variance over the same prompts, with scores on the same scale.

  Source: Razin et al. 2025, What Makes a Reward Model a Good Teacher?

  Args:
    scores: `[..., S]`, scores of the S samples of a prompt (a group).
    valid: `[..., S]` bool, True if the sample exists; None: all exist.

  Returns:
    `[...]` float32; 0 if all scores are equal.
  """
  valid = masked.mask_or_ones(jnp.asarray(scores), valid)
  return masked.std(base.zero_outside(scores, valid), valid) ** 2
