"""PRNG keys by prompt, for methods and rewards that need random numbers.

`Rollout.keys` has one key for each of the P prompts, so that random numbers do
not depend on the sharding. Using a key twice gives the same random numbers
twice. Therefore every use derives keys under a name that no other use has:

  keys = random_keys.keys(rollout.keys, "clip_cov")
  uniforms = jax.vmap(jax.random.uniform)(keys)
"""

from __future__ import annotations

import zlib

import jax
import numpy as np

Array = jax.Array
# Folded into the key of a prompt for random numbers of a method, such as
# bootstrap subsets. For sampling, the number of the sample is folded in, which
# is always smaller.
NOT_A_SAMPLE = 2**31 - 1


def keys(prompt_keys: Array, name: str) -> Array:
  """Derives one key per prompt for one use of random numbers.

  Args:
    prompt_keys: `[P]` PRNG keys, `Rollout.keys`.
    name: name of the use, such as the name of the method.

  Returns:
    `[P]` PRNG keys.
  """
  number = np.uint32(zlib.crc32(name.encode()))  # the same in every process
  return jax.vmap(jax.random.fold_in, (0, None))(prompt_keys, number)
