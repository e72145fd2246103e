"""Tests of `rewards.reward_models.calibrated`."""

import jax.numpy as jnp
import numpy as np

from rewards.reward_models import calibrated


def test_calibration_of_low_scores():
  result = calibrated.calibrated_scores(
    jnp.array([0.2, 0.45, 0.5, 0.9]), jnp.array([1.0, 0.5, 1.0, jnp.nan])
  )
  np.testing.assert_allclose(result, [0.3, 0.5, 0.5, 0.9], rtol=1e-6)
