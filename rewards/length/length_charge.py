"""Length charge: a fixed charge per token beyond a free allowance.

Source: Fu et al. 2025, Reward Shaping to Mitigate Reward Hacking in RLHF (PAR),
and its released code, which charges 0.01 per token beyond 300.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import types
from rl.transforms import transform

Array = jax.Array


def length_charges(
  lengths: Array, free: int = 300, price: float = 0.01
) -> Array:
  """Returns -price * max(length - free, 0).

  Add it to a score before the score is shaped (`rewards.shaping`).

  Args:
    lengths: `[...]` number of tokens of each completion.
    free: number of tokens without a charge.
    price: price of each further token.

  Returns:
    `[...]` float32, at most 0.
  """
  over = jnp.asarray(lengths, jnp.float32) - free
  return -price * jnp.maximum(over, 0.0)


@transform(takes="none", gives="sample")
def length_charge(
  _, rollout: types.Rollout, *, free: int = 300, price: float = 0.01
) -> Array:
  """Returns `length_charges` of the completions."""
  return length_charges(rollout.scored_lengths, free, price)
