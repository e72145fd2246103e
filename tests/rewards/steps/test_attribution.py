"""Tests of `rewards.steps.attribution`."""

import jax
import jax.numpy as jnp
import numpy as np

from rewards.steps import (
  attribution,
)


def test_attribution_recovers_what_each_turn_brings():
  """The loss's minimum is the least-squares one; the sum then holds."""
  rng = np.random.default_rng(5)
  worth = np.array([0.5, -0.2, 0.1, 0.4])
  existing = rng.random((200, 4)) < 0.6
  outcomes = (existing * worth).sum(1)

  def loss(c):
    contributions = jnp.broadcast_to(c, existing.shape)
    return attribution.attribution_loss(
      contributions, jnp.asarray(existing), outcomes
    ).mean()

  c = jnp.zeros(4)
  hessian, gradient = jax.jit(
    lambda c: (jax.hessian(loss)(c), jax.grad(loss)(c))
  )(c)
  c = c - jnp.linalg.solve(hessian, gradient)  # exact: it is quadratic
  np.testing.assert_allclose(c, worth, atol=1e-5)
  np.testing.assert_allclose(loss(c), 0, atol=1e-9)


def test_attributed_rewards_and_their_weakness():
  mask = jnp.arange(6) < 5
  result = attribution.attributed(jnp.full(6, 0.1), jnp.ones(6), mask)
  np.testing.assert_allclose(result, [0.6] * 5 + [0], rtol=1e-6)
  # Idle accepted actions collect: five of them beat one that succeeds.
  idle = attribution.attributed(jnp.zeros(6), jnp.ones(6), mask).sum()
  assert (
    idle
    > attribution.attributed(jnp.ones(6), jnp.ones(6), jnp.arange(6) < 1)[0]
  )
