"""Tests of `rewards.shaping.potential`."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rewards.shaping import potential as potential_rewards

potential_rewards = compiled.functions(potential_rewards)


def test_a_potential_moves_no_optimum():
  """On a two-step bandit the exact policy gradient is unchanged."""
  rng = np.random.default_rng(2)
  logits = jnp.asarray(rng.normal(size=(3, 2)), jnp.float32)  # state, action
  rewards = jnp.asarray(rng.normal(size=(2, 2, 2)), jnp.float32)  # a, b, step
  potential = jnp.asarray(rng.normal(size=3), jnp.float32)  # start, after a

  def value(logits, phi):
    policy = jax.nn.softmax(logits, -1)
    total = 0.0
    for a, b in itertools.product(range(2), repeat=2):
      shaped = potential_rewards.shape_by_potential(
        rewards[a, b], jnp.stack([phi[0], phi[1 + a]]), jnp.ones(2, bool)
      )
      total += policy[0, a] * policy[1 + a, b] * shaped.sum()
    return total

  reference, shaped = (
    jax.grad(value)(logits, phi) for phi in (0 * potential, potential)
  )
  np.testing.assert_allclose(shaped, reference, atol=1e-6)
  moved = value(logits, potential) - value(logits, 0 * potential)
  np.testing.assert_allclose(moved, -potential[0], atol=1e-6)


@pytest.mark.worked_example("function:potential.shape_by_potential")
def test_shaped_rewards_with_a_gap_in_the_mask():
  """Samples of 3 and of 2 entries; the second entry does not exist."""
  nan = jnp.nan
  rewards = jnp.array([[1, nan, 2, 3], [5, 7, 9, nan]])
  potentials = jnp.array([[4, nan, 8, 16], [1, 3, 0, nan]])
  mask = jnp.array([[True, False, True, True], [True, True, False, False]])
  result = potential_rewards.shape_by_potential(rewards, potentials, mask)
  # r + Phi(next) - Phi, and Phi = 0 at the end.
  expected = [[1 + 8 - 4, 0, 2 + 16 - 8, 3 - 16], [5 + 3 - 1, 7 - 3, 0, 0]]
  np.testing.assert_array_equal(result, expected)
  result = potential_rewards.shape_by_potential(
    rewards, potentials, mask, 0.5, jnp.array([6, 10])
  )
  expected = [[1 + 4 - 4, 0, 2 + 8 - 8, 3 + 3 - 16]]
  expected += [[5 + 1.5 - 1, 7 + 5 - 3, 0, 0]]
  np.testing.assert_array_equal(result, expected)
