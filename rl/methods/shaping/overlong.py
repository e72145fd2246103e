"""A penalty that grows as a sample nears the largest length.

Axes: P prompts, S samples per prompt (a group).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import types
from rl.transforms import transform

Array = jax.Array


@transform(takes="sample")
def soft_overlong(
  signal: Array,
  rollout: types.Rollout,
  *,
  max_length: int = 20480,
  cache: int = 4096,
) -> Array:
  """Returns R + clip((max_length - cache - L) / cache, -1, 0).

  R [P, S] are the scores and L the number of completion tokens of a sample. The
  second summand is 0 up to max_length - cache tokens and -1 from max_length on
  (from max_length + 1 on if cache is 0). L counts tokens of any author, such as
  those of tools. Only the scores change; filters read the verdicts, which do
  not.
  Source: Yu et al. 2025, DAPO.

  Args:
    max_length: largest number of tokens of a completion.
    cache: number of tokens before `max_length` over which the penalty grows;
      with 0 the full penalty starts after `max_length`.
  """
  margin = max_length - cache - rollout.tokens.lengths
  return signal + jnp.clip(margin / max(cache, 1), -1.0, 0.0)
