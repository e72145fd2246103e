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
  """R + clip((max_length - cache - L) / cache, -1, 0), L the sample's tokens.

  R [P, S] are the scores. The penalty is 0 up to max_length - cache and -1 from
  max_length on (from the token after it if cache is 0). L counts tokens of any
  author, such as those of tools. The scores change, the verdicts do not;
  filters read verdicts.
  Source: Yu et al. 2025, DAPO.

  Args:
    max_length: largest number of tokens of a completion.
    cache: number of last tokens over which the penalty grows; 0 applies it at
      once.
  """
  margin = max_length - cache - rollout.tokens.lengths
  return signal + jnp.clip(margin / max(cache, 1), -1.0, 0.0)
