"""Who is in: subsets for `among` and `only`, filters for `select` and `keep`.

They read the verdict, not the shaped score.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.transforms.base import transform

Array = jax.Array
_ROUNDING = 1e-6  # so that 1 of 5 is 0.2


# Subsets.


def known_verdict(rollout: types.Rollout) -> Array:
  """`[P, S]` samples whose verdict is known."""
  return rollout.correct >= 0


def right_verdict(rollout: types.Rollout) -> Array:
  """`[P, S]` samples known to be right."""
  return rollout.correct == 1


def wrong_verdict(rollout: types.Rollout) -> Array:
  """`[P, S]` samples known to be wrong."""
  return rollout.correct == 0


# Filters of samples.


@transform("none", "sample")
def only(
  _, rollout: types.Rollout, *, where: Callable[[types.Rollout], Array]
) -> Array:
  """The samples of a subset, `rollout -> [P, S]`."""
  return where(rollout)


@transform("none", "sample")
def mixed_verdicts(_, rollout: types.Rollout) -> Array:
  """Groups with a right and a wrong sample (dynamic sampling of DAPO)."""
  real = rollout.sample_mask
  right = ((rollout.correct == 1) & real).any(-1, keepdims=True)
  wrong = ((rollout.correct == 0) & real).any(-1, keepdims=True)
  return jnp.broadcast_to(right & wrong, real.shape)


@transform("none", "sample")
def finished(_, rollout: types.Rollout) -> Array:
  """Samples that ended by themselves (overlong filtering of DAPO)."""
  return rollout.finished


# Filters of whole groups.


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
