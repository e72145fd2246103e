"""Tests of `rewards.length.length_charge`."""

import jax.numpy as jnp
import numpy as np

from rewards.length import length_charge


def test_tokens_beyond_those_that_are_free_cost():
  result = length_charge.length_charges(jnp.array([10, 300, 301, 500]))
  np.testing.assert_allclose(result, [0, 0, -0.01, -2], rtol=1e-5, atol=1e-7)
