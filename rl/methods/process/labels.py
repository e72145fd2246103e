"""Verdicts of a share of the prompts, for methods that read step scores.

Axes: P prompts, S samples per prompt (a group).
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rl import UsageError, types
from rl.transforms import Transform, among, chain, known_verdict, verdicts

Array = jax.Array
_HASH_BITS = 24  # exact in float32 and fine enough for any share


def _hash(ids: Array) -> Array:
  """A fixed integer hash, uniform over `[0, 2^24)`: MurmurHash3's finalizer."""
  # Without the constant, id 0 would have hash 0.
  x = ids.astype(jnp.uint32) + jnp.uint32(0x9E3779B9)
  x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
  x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
  return (x ^ (x >> 16)) >> (32 - _HASH_BITS)


def labelled(fraction: float) -> Callable[[types.Rollout], Array]:
  """Returns a function that selects the samples of a share of the prompts.

  The function is `rollout -> [P, S] bool`. A prompt is selected by a hash of
  its id: always or never, in every batch and at every position. The prompts of
  a smaller share are among those of a larger one.

  Args:
    fraction: share of the prompts, approximately; 0 selects none, 1 all.

  Raises:
    UsageError: if `fraction` is not in [0, 1].
  """
  if not 0 <= fraction <= 1:
    raise UsageError(
      f"labelled = {fraction:g} must be a share of the prompts from 0 to 1; "
      f"the nearest valid value is {min(max(fraction, 0.0), 1.0):g}"
    )
  hash_limit = round(fraction * 2**_HASH_BITS)

  def selected(rollout: types.Rollout) -> Array:
    prompts = _hash(rollout.prompt_ids) < hash_limit
    return jnp.broadcast_to(prompts[:, None], rollout.sample_mask.shape)

  selected.__name__ = f"labelled({fraction:g})"
  return selected


def usable_verdicts(fraction: float, *transforms: Transform) -> Transform:
  """Returns `chain(verdicts(), *transforms)` on the verdicts that may be used.

  These are the known verdicts of the prompts in `labelled(fraction)`. All other
  samples are in no statistic of the transforms and have 0. The rollout keeps
  all verdicts, for metrics.

  Args:
    fraction: share of the prompts whose verdicts may be used.
    *transforms: transforms of the verdicts, such as `leave_one_out()`.
  """
  advantage = among(known_verdict, chain(verdicts(), *transforms))
  return among(labelled(fraction), advantage)
