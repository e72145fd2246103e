"""Randomness by prompt, every draw with keys of its own.

`rollout.keys` has one key a prompt, the same under any sharding. Two draws of
one key are not independent: whoever draws takes `keys` under its own name.

Usage:
  uniforms = jax.vmap(jax.random.uniform)(draws.keys(rollout.keys, "clip_cov"))
"""

from __future__ import annotations

import zlib

import jax
import numpy as np

Array = jax.Array


def keys(prompt_keys: Array, name: str) -> Array:
  """One key per prompt for the draws of `name`.

  Args:
    prompt_keys: `[P]` PRNG keys.
    name: of what draws.

  Returns:
    `[P]` keys.
  """
  own = np.uint32(zlib.crc32(name.encode()))
  return jax.vmap(jax.random.fold_in, (0, None))(prompt_keys, own)
