"""Tests of `rewards.steps.weibull`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rewards.steps import weibull

weibull = compiled.functions(weibull)


def test_the_weibull_s_mode():
  steps = jnp.linspace(0.01, 30, 30_000)
  result = weibull.weibull_shape(steps)
  mode = 8 * (0.5 / 1.5) ** (1 / 1.5)
  np.testing.assert_allclose(steps[jnp.argmax(result)], mode, atol=2e-3)
  assert result.max() < 1.001
  assert weibull.weibull_shape(jnp.array(0)) == 0


@pytest.mark.worked_example("function:weibull.weibull_shape")
def test_density_of_the_paper_and_of_other_constants():
  """The paper has k = 1.5, l = 8 and C = 10.735."""
  # C (k / l) (n / l)^{k - 1} e^{-(n / l)^k}
  n = np.array([0, 1, 4, 9])
  expected = 10.735 * 1.5 / 8 * (n / 8) ** 0.5 * np.exp(-((n / 8) ** 1.5))
  np.testing.assert_allclose(
    weibull.weibull_shape(jnp.asarray(n)), expected, rtol=1e-6
  )
  # k = 1, l = 2, C = 5, with the density 1/2 at 0 steps, which have no reward
  np.testing.assert_allclose(
    weibull.weibull_shape(jnp.array([0, 1]), 1.0, 2.0, 5.0),
    [0, 5 / 2 * np.exp(-1 / 2)],
    rtol=1e-6,
  )
  # k = 3, l = 2, C = 5, at n = 3
  np.testing.assert_allclose(
    weibull.weibull_shape(jnp.array(3), 3.0, 2.0, 5.0),
    5 * 3 / 2 * (3 / 2) ** 2 * np.exp(-((3 / 2) ** 3)),
    rtol=1e-6,
  )
