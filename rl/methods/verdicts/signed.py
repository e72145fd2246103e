"""The transform from verdicts to signed advantages."""

from __future__ import annotations

import jax

from rl import types
from rl.transforms import transform

Array = jax.Array


@transform(takes="none", gives="sample")
def signed_verdicts(_, rollout: types.Rollout, *, right: float = 1.0) -> Array:
  """Returns `right` for right samples, -1 for wrong ones, 0 for unknown."""
  return right * (rollout.correct == 1) - 1.0 * (rollout.correct == 0)
