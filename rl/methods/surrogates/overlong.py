"""Samples that run out of room: a punishment that grows as they near it."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import types
from rl.transforms import transform

Array = jax.Array


@transform("sample")
def soft_overlong(
  signal: Array,
  rollout: types.Rollout,
  *,
  max_length: int = 20480,
  cache: int = 4096,
) -> Array:
  """R + clip((max_length - cache - L) / cache, -1, 0), L the sample's tokens.

  Nothing up to max_length - cache, -1 from max_length on (from the token after
  it if cache is 0); tokens of any author take up room. It changes R and not the
  verdict, which filters read.

  Args:
    max_length: tokens that a completion may have.
    cache: the last of them, over which the punishment grows; 0: at once.
  Source: Yu et al. 2025, DAPO.
  """
  left = max_length - cache - rollout.tokens.lengths
  return signal + jnp.clip(left / max(cache, 1), -1.0, 0.0)
