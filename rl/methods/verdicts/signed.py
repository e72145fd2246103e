"""Verdicts as advantages."""

from __future__ import annotations

import jax

from rl import types
from rl.transforms import transform

Array = jax.Array


@transform("none", "sample")
def signed_verdicts(_, rollout: types.Rollout, *, right: float = 1.0) -> Array:
  """+right where correct, -1 where not, 0 where unknown; no baseline."""
  return right * (rollout.correct == 1) - 1.0 * (rollout.correct == 0)
