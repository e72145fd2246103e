"""Filters of whole groups, for `select` and `keep`."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.transform import transform

Array = jax.Array
_ROUNDING = 1e-6  # so that 1 of 5 is 0.2


@transform("none", "sample")
def accuracy_between(
  _, rollout: types.Rollout, *, low: float = 0.2, high: float = 0.8
) -> Array:
  """Groups whose share of right samples is in [low, high].

  Of the known verdicts; a group without any is out.
  """
  known = rollout.sample_mask & (rollout.correct >= 0)
  accuracy = masked.mean(rollout.correct == 1, known, keepdims=True)
  inside = (accuracy >= low - _ROUNDING) & (accuracy <= high + _ROUNDING)
  kept = inside & known.any(-1, keepdims=True)
  return jnp.broadcast_to(kept, known.shape)


@transform("none", "sample")
def all_finished(_, rollout: types.Rollout) -> Array:
  """Groups of which every sample ended by itself."""
  cut = (rollout.sample_mask & ~rollout.finished).any(-1, keepdims=True)
  return jnp.broadcast_to(~cut, rollout.sample_mask.shape)
