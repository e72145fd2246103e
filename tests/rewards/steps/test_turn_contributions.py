"""Tests of `rewards.steps.turn_contributions`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rewards.steps import turn_contributions

attribution = compiled.functions(turn_contributions)


def test_attribution_recovers_what_each_turn_brings():
  """The loss's minimum is the least-squares one; the sum then holds."""
  rng = np.random.default_rng(5)
  worth = np.array([0.5, -0.2, 0.1, 0.4])
  existing = rng.random((200, 4)) < 0.6
  outcomes = (existing * worth).sum(1)

  def loss(c):
    contributions = jnp.broadcast_to(c, existing.shape)
    return turn_contributions.attribution_loss(
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
  result = turn_contributions.attributed(jnp.full(6, 0.1), jnp.ones(6), mask)
  np.testing.assert_allclose(result, [0.6] * 5 + [0], rtol=1e-6)
  # Idle accepted actions collect: five of them beat one that succeeds.
  idle = turn_contributions.attributed(jnp.zeros(6), jnp.ones(6), mask).sum()
  assert (
    idle
    > turn_contributions.attributed(
      jnp.ones(6), jnp.ones(6), jnp.arange(6) < 1
    )[0]
  )


@pytest.mark.worked_example("function:turn_contributions.attribution_loss")
def test_loss_of_two_samples_of_unequal_length():
  """Contributions 0.5 + 0.25 against outcome 1, and 0.125 - 1 + 3 against 2."""
  result = turn_contributions.attribution_loss(
    jnp.array([[0.5, 0.25, jnp.nan], [0.125, -1, 3]]),
    jnp.array([[True, True, False], [True, True, True]]),
    jnp.array([1, 2]),
  )
  np.testing.assert_array_equal(result, [0.25**2, 0.125**2])


@pytest.mark.worked_example("function:turn_contributions.attributed")
def test_contributions_and_accepted_actions():
  """r_k = alpha c_k + beta g_k, with the released code's beta = 0.5."""
  contributions = jnp.array([[0.25, -0.75, jnp.nan], [2, 0.5, 1]])
  grounded = jnp.array([[True, False, True], [False, True, True]])
  mask = jnp.array([[True, True, False], [True, True, True]])
  result = turn_contributions.attributed(contributions, grounded, mask)
  np.testing.assert_array_equal(result, [[0.75, -0.75, 0], [2, 1, 1.5]])
  result = turn_contributions.attributed(
    contributions, grounded, mask, 2.0, 0.25
  )
  np.testing.assert_array_equal(result, [[0.75, -1.5, 0], [4, 1.25, 2.25]])
