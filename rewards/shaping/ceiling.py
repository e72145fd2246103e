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
  """Returns min(score, highest), `[...] -> [...]`."""
  return jnp.minimum(scores, highest)


@transform(takes="none", gives="sample")
def ceiling(
  _, rollout: types.Rollout, *, highest: float, component: str = ""
) -> Array:
  """Returns `ceiling_scores` of a component, or of the score if it is ""."""
  return ceiling_scores(base.score(rollout, component), highest)
