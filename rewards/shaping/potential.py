"""Potential-based shaping: rewards for moving to states of higher potential.

No registered reward calls this function yet.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked

Array = jax.Array


def shape_by_potential(
  rewards: Array,
  potentials: Array,
  mask: Array,
  gamma: float = 1.0,
  terminal: Array | float = 0.0,
) -> Array:
  """Returns r_k + gamma * Phi(s_{k+1}) - Phi(s_k), for entries k (steps).

  Phi(s_k) is the potential of the prefix before entry k; after the last of n
  entries it is `terminal`. The shaping adds gamma^n * terminal - Phi(s_0) to
  the discounted sum of rewards. With gamma 1 and a terminal potential of 0,
  also for truncated samples, this is -Phi of the prompt. It is equal for all
  samples of a prompt, so no optimum changes, and a baseline over these samples
  removes it. A potential that depends on more than the prefix can change the
  optima.

  Source: Ng, Harada & Russell 1999, Policy Invariance under Reward
  Transformations.

  Args:
    rewards: `[..., K]`, rewards of K steps or tokens.
    potentials: `[..., K]`, potential before each step or token.
    mask: `[..., K]` bool, True for the entries that exist; others are skipped.
    gamma: discount per entry.
    terminal: potential after the last entry, broadcast to `[...]`.

  Returns:
    `[..., K]` float32, 0 where the mask is False.
  """
  potentials = jnp.asarray(potentials, jnp.float32)
  next_index, has_next = masked.following(mask)
  end = jnp.asarray(terminal, jnp.float32)[..., None]
  # Potentials of entries that do not exist are read only where `has_next` is
  # False, and discarded.
  after = jnp.take_along_axis(
    potentials, next_index, -1, mode="promise_in_bounds"
  )
  after = jnp.where(has_next, after, end)
  shaped = jnp.asarray(rewards, jnp.float32) + gamma * after - potentials
  return base.zero_outside(shaped, mask)
