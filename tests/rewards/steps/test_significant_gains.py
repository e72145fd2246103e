"""Tests of `rewards.steps.significant_gains`."""

import jax.numpy as jnp
import numpy as np

from rewards.steps import significant_gains


def test_clear_gains_reach_back_to_the_steps_before():
  gain = jnp.array([0.0, 0.05, 0.4, 0.0, 0.0, 0.0, 0.0, -0.5])
  mask = jnp.ones(8, bool)
  result = significant_gains.significant_step_gains(
    gain, mask, 0.1, 0.5, 2, -0.01
  )
  expected = [0.1, 0.2, 0.4, -0.01, -0.01, -0.125, -0.25, -0.5]
  np.testing.assert_allclose(result, expected, rtol=1e-6)
  # Known from the start: no gain, and only the charge.
  idle = significant_gains.significant_step_gains(
    jnp.zeros(8), mask, idle=-0.01
  )
  np.testing.assert_allclose(idle, -0.01)
