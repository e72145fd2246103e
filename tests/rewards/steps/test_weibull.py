"""Tests of `rewards.steps.weibull`."""

import jax.numpy as jnp
import numpy as np

from rewards.steps import weibull


def test_the_weibull_s_mode():
  steps = jnp.linspace(0.01, 30, 30_000)
  result = weibull.weibull_shape(steps)
  mode = 8 * (0.5 / 1.5) ** (1 / 1.5)
  np.testing.assert_allclose(steps[jnp.argmax(result)], mode, atol=2e-3)
  assert result.max() < 1.001
  assert weibull.weibull_shape(jnp.array(0)) == 0
