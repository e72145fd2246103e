"""Tests of `rewards.shaping.potential`."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from rewards.shaping import potential as potential_rewards


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
