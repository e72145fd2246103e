"""Tests of `rewards.steps.information_gain`."""

import jax.numpy as jnp
import numpy as np

from rewards.steps import information_gain
from rl import credit


def test_information_gain_s_numbers():
  before = jnp.array([0.1, 0.3, 0.2])
  mask = jnp.ones(3, bool)
  result = information_gain.information_gains(before, mask, 1.0)
  np.testing.assert_allclose(result, [0.2, -0.1, 1.0], atol=1e-6)
  returns = credit.returns_to_go(result, mask)
  np.testing.assert_allclose(returns, [1.1, 0.9, 1.0], atol=1e-6)
  alone = information_gain.information_gains(before, jnp.arange(3) < 1, 0.7)
  np.testing.assert_allclose(alone, [0.7, 0, 0], rtol=1e-6)
  idle = information_gain.information_gains(jnp.full(3, 0.4), mask, 0.0)
  np.testing.assert_array_equal(idle, 0)
