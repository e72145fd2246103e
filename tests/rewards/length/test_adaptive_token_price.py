"""Tests of `rewards.length.adaptive_token_price`."""

import jax.numpy as jnp
import numpy as np

from rewards.length import (
  adaptive_token_price,
)

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
