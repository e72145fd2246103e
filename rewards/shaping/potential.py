"""Potential-based shaping: rewards for moving to states of higher potential.

No registered reward calls these functions yet.
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
  """r'_k = r_k + gamma Phi(s_{k+1}) - Phi(s_k), Phi(terminal) after the last.

  The shaping adds gamma^K Phi(terminal) - Phi(s_0) to the discounted sum. With
  gamma 1 and a terminal potential of 0, also for truncated samples, this is
  -Phi of the prompt, equal for all samples of a group: no optimum changes, and
  a baseline over the group removes it. A potential that depends on more than
  the prefix changes the optima.

  Source: Ng, Harada & Russell 1999, Policy Invariance under Reward
  Transformations.

  Args:
    rewards: `[..., K]` of steps or tokens.
    potentials: `[..., K]`, Phi before each of them.
    mask: `[..., K]` bool; masked entries are skipped.
    gamma: discount per entry.
    terminal: Phi after the last entry, broadcast to `[...]`.

  Returns:
    `[..., K]` float32, 0 where masked.
  """
  potentials = jnp.asarray(potentials, jnp.float32)
  at, linked = masked.following(mask)
  end = jnp.asarray(terminal, jnp.float32)[..., None]
  # Masked potentials are read only where `linked` is False, and discarded.
  after = jnp.take_along_axis(potentials, at, -1, mode="promise_in_bounds")
  after = jnp.where(linked, after, end)
  shaped = jnp.asarray(rewards, jnp.float32) + gamma * after - potentials
  return base.zero_outside(shaped, mask)
