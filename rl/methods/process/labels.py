"""Verdicts of a part of the prompts: few labels beside many step scores."""

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
  x = ids.astype(jnp.uint32) + jnp.uint32(0x9E3779B9)  # 0 would stay 0
  x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
  x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
  return (x ^ (x >> 16)) >> (32 - _HASH_BITS)


def labelled(fraction: float) -> Callable[[types.Rollout], Array]:
  """`rollout -> [P, S]`, the samples of about that fraction of the prompts.

  A prompt is chosen by a hash of its id: always or never, in whatever batch and
  place it comes, and every prompt of a smaller fraction is in a larger one.

  Args:
    fraction: 0 chooses none, 1 all.

  Raises:
    ValueError: it is not in [0, 1].
  """
  if not 0 <= fraction <= 1:
    raise ValueError(
      f"labelled({fraction:g}): a fraction of the prompts is from 0 to 1; "
      f"nearest: {min(max(fraction, 0.0), 1.0):g}"
    )
  bound = round(fraction * 2**_HASH_BITS)

  def chosen(rollout: types.Rollout) -> Array:
    prompts = _hash(rollout.prompt_ids) < bound
    return jnp.broadcast_to(prompts[:, None], rollout.sample_mask.shape)

  chosen.__name__ = f"labelled({fraction:g})"
  return chosen


def usable_verdicts(fraction: float, *links: Transform) -> Transform:
  """`chain(verdicts(), *stages)` among the verdicts that may be used.

  These are the known ones, of the prompts in `labelled(fraction)`; the others
  are in no statistic and give 0. The rollout keeps every verdict, for metrics.
  """
  known = among(known_verdict, chain(verdicts(), *links))
  return among(labelled(fraction), known)
