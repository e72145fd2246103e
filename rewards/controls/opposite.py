"""Opposite: a control reward that pays for the opposite of the score.

Source: Shao et al. 2025, Spurious Rewards: Rethinking Training Signals in RLVR.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


def opposite_scores(rewards: Array, valid: Array | None = None) -> Array:
  """Returns 1 - r, the opposite of each reward.

  Args:
    rewards: `[...]` in [0, 1].
    valid: `[...]` bool, True if the sample exists; None: all exist.

  Returns:
    `[...]` float32; 0 for samples that do not exist.
  """
  valid = masked.mask_or_ones(jnp.asarray(rewards), valid)
  return base.zero_outside(1.0 - base.zero_outside(rewards, valid), valid)


@transform(takes="none", gives="sample")
def opposite(_, rollout: types.Rollout, *, component: str = "") -> Array:
  """Returns `opposite_scores` of a component, or of the score if it is ""."""
  return opposite_scores(base.score(rollout, component), rollout.sample_mask)
