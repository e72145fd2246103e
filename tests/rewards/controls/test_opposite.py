"""Tests of `rewards.controls.opposite`."""

import jax.numpy as jnp
import numpy as np

from rewards.controls import opposite
from rl import advantages


def test_the_opposite_charges_for_what_was_paid():
  valid = jnp.array([True, True, True, False])
  rewards = jnp.array([1.0, 0.0, 0.25, jnp.nan])
  result = opposite.opposite_scores(rewards, valid)
  np.testing.assert_allclose(result, [0, 1, 0.75, 0])
  paid = advantages.center(jnp.where(valid, rewards, 0), valid)
  np.testing.assert_allclose(advantages.center(result, valid), -paid, atol=1e-6)
