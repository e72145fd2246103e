"""Tests of `rewards.length.length_charge`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rewards.length import length_charge


def test_tokens_beyond_those_that_are_free_cost():
  result = length_charge.length_charges(jnp.array([10, 300, 301, 500]))
  np.testing.assert_allclose(result, [0, 0, -0.01, -2], rtol=1e-5, atol=1e-7)


@pytest.mark.worked_example(
  "reward:length_charge", "function:length_charge.length_charges"
)
def test_charge_beyond_300_tokens():
  """A hundredth per token beyond 300, and 1/2 per token beyond 4."""
  rollout = worked_example.rollout(np.zeros(4), [10, 300, 301, 500])
  # -0.01 max(|y| - 300, 0)
  value = worked_example.reward("length_charge", rollout)
  np.testing.assert_allclose(value, [[0, 0, -0.01, -2]], rtol=1e-5)
  short = worked_example.rollout(np.zeros(3), [3, 4, 9])
  value = worked_example.reward("length_charge", short, free=4, price=0.5)
  np.testing.assert_allclose(value, [[0, 0, -2.5]], rtol=1e-6)
  value = length_charge.length_charges(jnp.array([299, 302, 400]))
  np.testing.assert_allclose(value, [0, -0.02, -1], rtol=1e-5)
