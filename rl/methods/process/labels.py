"""Verdicts for a share of the prompts, beside step scores for all of them.

Axes: P prompts, S samples per prompt (a group).
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rl import types
from rl.transforms import Transform, among, chain, known_verdict, verdicts

Array = jax.Array
_HASH_BITS = 24


def _hash(ids: Array) -> Array:
  """A fixed integer hash, uniform over `[0, 2^24)`: MurmurHash3's finalizer."""
  # Without the constant, id 0 would have hash 0.
  x = ids.astype(jnp.uint32) + jnp.uint32(0x9E3779B9)
  x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
  x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
  return (x ^ (x >> 16)) >> (32 - _HASH_BITS)


def labelled(fraction: float) -> Callable[[types.Rollout], Array]:
  """Returns `rollout -> [P, S]` bool, the samples of a share of the prompts.

  A prompt is selected by a hash of its id: always or never, in every batch and
  at every position. The prompts of a smaller share are among those of a larger
  one.

  Args:
    fraction: share of the prompts, approximately; 0 selects none, 1 all.

  Raises:
    ValueError: if it is not in [0, 1].
  """
  if not 0 <= fraction <= 1:
    raise ValueError(
      f"labelled({fraction:g}): the fraction of prompts must be from 0 to 1; "
      f"nearest: {min(max(fraction, 0.0), 1.0):g}"
    )
  bound = round(fraction * 2**_HASH_BITS)

  def selected(rollout: types.Rollout) -> Array:
    prompts = _hash(rollout.prompt_ids) < bound
    return jnp.broadcast_to(prompts[:, None], rollout.sample_mask.shape)

  selected.__name__ = f"labelled({fraction:g})"
  return selected


def usable_verdicts(fraction: float, *transforms: Transform) -> Transform:
  """`chain(verdicts(), *transforms)` on the verdicts that may be used.

  These are the known verdicts of the prompts in `labelled(fraction)`. The
  others are in no statistic and give 0. The rollout keeps all verdicts, for
  metrics.
  """
  advantage = among(known_verdict, chain(verdicts(), *transforms))
  return among(labelled(fraction), advantage)
