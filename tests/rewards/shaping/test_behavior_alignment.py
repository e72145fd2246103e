"""Tests of `rewards.shaping.behavior_alignment`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewards.shaping import behavior_alignment

REWARDS = jnp.array([[0.0, 1.0], [1.0, 0.0]])  # primary, auxiliary


def value(theta, which):
  return jax.nn.softmax(theta) @ REWARDS[which]


def test_one_unrolled_step_is_the_finite_difference():
  theta, rate = jnp.array([0.3, -0.2]), 0.7
  components = jnp.stack([jax.grad(value)(theta, c) for c in range(2)])

  def outer(phi):
    return value(theta + rate * phi @ components, 0)

  phi, h = jnp.array([0.6, 0.9]), 1e-2
  primary = jax.grad(value)(theta + rate * phi @ components, 0)
  result = behavior_alignment.outer_gradient(
    {"theta": primary}, {"theta": components}, rate
  )
  for c in range(2):
    step = h * jnp.eye(2)[c]
    slope = (outer(phi + step) - outer(phi - step)) / (2 * h)
    np.testing.assert_allclose(result[c], slope, rtol=1e-3)


def test_a_misleading_reward_loses_its_weight():
  theta, phi = jnp.zeros(2), jnp.array([1.0, 1.5])
  observed = [phi]
  for _ in range(40):
    components = jnp.stack([jax.grad(value)(theta, c) for c in range(2)])
    theta = theta + phi @ components
    primary = jax.grad(value)(theta, 0)
    phi = behavior_alignment.next_weights(phi, primary, components, 1.0)
    observed.append(phi)
  aux = np.stack(observed)[:, 1]
  assert (np.diff(aux) < 0).all()
  assert phi[0] > phi[1]
  assert value(theta, 0) > 0.5  # it began by preferring the wrong arm
  still = behavior_alignment.next_weights(phi, jnp.zeros(2), components)
  np.testing.assert_array_equal(still, phi)  # no primary signal


def test_a_reward_that_misleads_every_time_is_turned_round():
  """Each inner step starts afresh, as on new prompts: the conflict lasts."""
  phi = jnp.array([1.0, 1.5])
  start = jnp.zeros(2)
  components = jnp.stack([jax.grad(value)(start, c) for c in range(2)])
  for _ in range(40):
    primary = jax.grad(value)(start + phi @ components, 0)
    phi = behavior_alignment.next_weights(phi, primary, components, 1.0)
  assert phi[1] < 0 < phi[0]
  assert value(start + phi @ components, 0) > 0.5


@pytest.mark.worked_example(
  "function:behavior_alignment.outer_gradient",
  "function:behavior_alignment.next_weights",
)
def test_slopes_of_weights_and_a_step():
  """eta <grad J, g_c> for three components of a tree of two leaves."""
  primary = {"a": jnp.array([[1.0, -2.0]]), "b": jnp.array([3.0])}
  components = {
    "a": jnp.array([[[2.0, 1.0]], [[0.0, 4.0]], [[1.0, 1.0]]]),
    "b": jnp.array([[1.0], [2.0], [-5.0]]),
  }
  products = np.array([2 - 2 + 3, -8 + 6, 1 - 2 - 15])
  np.testing.assert_array_equal(
    behavior_alignment.outer_gradient(primary, components), products
  )
  np.testing.assert_array_equal(
    behavior_alignment.outer_gradient(primary, components, 0.25),
    0.25 * products,
  )
  weights = jnp.array([0.5, 7.0, 1.0])
  result = behavior_alignment.next_weights(weights, primary, components)
  # phi + 0.1 * eta <grad J, g_c>, with eta = 1
  np.testing.assert_allclose(result, [0.8, 6.8, -0.6], rtol=1e-6)
  result = behavior_alignment.next_weights(
    weights, primary, components, 2.0, 0.25
  )
  np.testing.assert_allclose(result, [2, 6, -7], rtol=1e-6)
