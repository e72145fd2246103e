"""Tests of `rewards.tasks.closeness`."""

import math

import jax.numpy as jnp
import numpy as np

from rewards.tasks import closeness


def test_closeness_is_one_at_the_target_and_falls_by_e():
  values, target = jnp.array([20, 23, 17, 26, 20]), 20
  legal = jnp.array([True, True, True, True, False])
  scores = closeness.closeness(values, legal, target)
  expected = [1, 1 / math.e, 1 / math.e, math.e**-2, 0]
  np.testing.assert_allclose(scores, expected, rtol=1e-6)
  wide = closeness.closeness(values, legal, target, scale=6.0)
  np.testing.assert_allclose(wide, np.sqrt(expected), rtol=1e-6)
