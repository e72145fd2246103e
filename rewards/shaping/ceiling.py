"""Ceiling: scores above a limit count as the limit.

Source: Fu et al. 2025, Reward Shaping to Mitigate Reward Hacking in RLHF (PAR).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import types
from rl.transforms import transform

Array = jax.Array


def ceiling_scores(scores: Array, highest: float) -> Array:
  """min(r, highest), `[...] -> [...]`."""
  return jnp.minimum(scores, highest)


@transform(takes="none", gives="sample")
def ceiling(
  _, rollout: types.Rollout, *, highest: float, component: str = ""
) -> Array:
  """`ceiling_scores` of the task's score, or of the component `component`."""
  return ceiling_scores(base.score(rollout, component), highest)
