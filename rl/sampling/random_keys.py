"""PRNG keys by prompt, for methods and rewards that need random numbers.

`Rollout.keys` has one key per prompt, so that random numbers do not depend on
the sharding. Random numbers from the same key are not independent. Therefore
every use of random numbers derives keys of its own, under a name of its own:

  keys = random_keys.keys(rollout.keys, "clip_cov")
  uniforms = jax.vmap(jax.random.uniform)(keys)
"""

from __future__ import annotations

import zlib

import jax
import numpy as np

Array = jax.Array


def keys(prompt_keys: Array, name: str) -> Array:
  """Derives one key per prompt for one use of random numbers.

  Args:
    prompt_keys: `[P]` PRNG keys.
    name: name of the use, such as that of the method.

  Returns:
    `[P]` keys.
  """
  number = np.uint32(zlib.crc32(name.encode()))  # the same in every process
  return jax.vmap(jax.random.fold_in, (0, None))(prompt_keys, number)
