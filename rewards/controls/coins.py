"""Coins: a control reward that is random.

If a policy improves under a control reward, the information in the reward is
not the cause: clipping, abilities of the base model or the data are. Compare
every claim about a reward with the controls of this folder.

Source: Shao et al. 2025, Spurious Rewards: Rethinking Training Signals in RLVR.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import UsageError, types
from rl.sampling import random_keys
from rl.transforms import transform

Array = jax.Array


def draw_coins(keys: Array, samples: int, probability: float = 0.5) -> Array:
  """Draws 1 with the given probability, else 0, for every sample.

  The draw of sample s of a prompt does not depend on the number of samples, and
  no other control uses the same random numbers.

  Args:
    keys: `[P]` PRNG keys, new in every step (`rollout.keys`).
    samples: number of samples S.
    probability: probability of 1.

  Returns:
    `[P, S]` float32.

  Raises:
    UsageError: `probability` is outside [0, 1].
  """
  check_probability(probability)

  def draw(key: Array) -> Array:
    sample_keys = jax.vmap(jax.random.fold_in, (None, 0))(
      key, jnp.arange(samples)
    )
    return jax.vmap(lambda k: jax.random.bernoulli(k, probability))(sample_keys)

  return jax.vmap(draw)(random_keys.keys(keys, "coins")).astype(jnp.float32)


def check_probability(probability: float) -> None:
  """Raises UsageError if `probability` is outside [0, 1]."""
  if not 0 <= probability <= 1:
    raise UsageError(
      f"probability = {probability:g} must be between 0 and 1; the nearest "
      f"valid value is {min(max(probability, 0.0), 1.0):g}"
    )


@transform(takes="none", gives="sample")
def coins(_, rollout: types.Rollout, *, probability: float = 0.5) -> Array:
  """Returns `draw_coins` with the PRNG keys of the rollout."""
  samples = rollout.sample_mask.shape[-1]
  return draw_coins(rollout.keys, samples, probability)
