"""Tests of `rewards.length.adaptive_token_price`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

import rewards
from rewards.length import adaptive_token_price

CORRECT = jnp.array([1, 1, 1, 0])
LENGTHS = jnp.array([100, 200, 300, 150])


def test_price_of_a_token_and_its_controller():
  result = adaptive_token_price.token_price(CORRECT, LENGTHS, 0.001)
  np.testing.assert_allclose(result, [0.9, 0.8, 0.7, -0.15], atol=1e-6)
  price, total = jnp.float32(0.002), 0.002
  for accuracy in [0.9, 0.7, 0.5, 0.5]:
    price = adaptive_token_price.next_price(price, accuracy, 0.6, rate=0.01)
    total += 0.01 * (accuracy - 0.6)
  np.testing.assert_allclose(price, total, rtol=1e-5)
  np.testing.assert_allclose(
    adaptive_token_price.next_price(price, 0.6, 0.6), price
  )
  assert adaptive_token_price.next_price(0.001, 0.0, 0.6, rate=1.0) == 0


def test_the_weakness_of_a_price_is_silence():
  """Dear enough, saying nothing beats a right answer: hence the controller."""
  right, silent = adaptive_token_price.token_price(
    jnp.array([1, 0]), jnp.array([600, 0]), 0.002
  )
  assert silent > right


@pytest.mark.worked_example(
  "reward:adaptive_token_price",
  "function:adaptive_token_price.token_price",
  "function:adaptive_token_price.next_price",
)
def test_price_of_two_training_steps():
  """Three of four verdicts are right, so the price rises by 1e-3 / 4."""
  exists = jnp.array([[True, True, True], [True, True, False]])
  rollout = worked_example.rollout(
    np.zeros((2, 3)),
    [[100, 250, 300], [400, 150, 900]],
    correct=[[1, 1, -1], [1, 0, 1]],
    sample_mask=exists,
  )
  t = rewards.get("adaptive_token_price")
  # R = 1[right] - price |y|, with the price 1e-3 at first.
  first, price = jax.jit(t.apply)(None, rollout, t.init())
  expected = [[0.9, 0.75, -0.3], [0.6, -0.15, 0]]
  np.testing.assert_allclose(first, expected, atol=1e-6)
  # price + rate (accuracy - reference), with 1e-3 and 1/2; unknown verdicts
  # and missing samples do not count: (3 right of 4) - 1/2.
  np.testing.assert_allclose(price, 0.00125, rtol=1e-5)
  second, price = jax.jit(t.apply)(None, rollout, price)
  expected = [[0.875, 0.6875, -0.375], [0.5, -0.1875, 0]]
  np.testing.assert_allclose(second, expected, atol=1e-6)
  np.testing.assert_allclose(price, 0.0015, rtol=1e-5)
  unknown = rollout.replace(correct=jnp.full((2, 3), -1))
  np.testing.assert_array_equal(
    jax.jit(t.apply)(None, unknown, price)[1], price
  )
  # A single verdict: 1 right of 1.
  single = unknown.replace(correct=unknown.correct.at[0, 1].set(1))
  raised = jax.jit(t.apply)(None, single, price)[1]
  np.testing.assert_allclose(raised, 0.002, rtol=1e-5)
  t = rewards.get("adaptive_token_price", price=0.01, reference=1, rate=0.02)
  value, price = jax.jit(t.apply)(None, rollout, t.init())
  np.testing.assert_allclose(value[0], [0, -1.5, -3], atol=1e-6)
  np.testing.assert_allclose(price, 0.005, rtol=1e-5)
  # max(0, price + 1e-3 (a - a0)): 0.002 + 1e-3 / 2, and below 0.
  next_price = adaptive_token_price.next_price
  np.testing.assert_allclose(next_price(0.002, 0.75, 0.25), 0.0025, rtol=1e-5)
  np.testing.assert_allclose(next_price(0.002, 0.25, 0.75), 0.0015, rtol=1e-5)
  assert next_price(0.0004, 0.25, 0.75) == 0
  value = adaptive_token_price.token_price(
    jnp.array([0, 1]), jnp.array([9, 7]), 0.1, jnp.array([True, False])
  )
  np.testing.assert_allclose(value, [-0.9, 0], rtol=1e-6)
