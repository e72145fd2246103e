"""Tests of transforms over steps in groups of few samples."""

import jax.numpy as jnp
import numpy as np
from helpers import worked_example

from rl.methods.process import step_transforms

NAN = np.nan


def test_others_are_at_least_one_other_sample_with_a_token():
  """Groups of one, two and three samples; the last one has one with tokens."""
  exists = jnp.array([[1, 0, 0], [1, 1, 0], [1, 1, 1]], bool)
  rollout = worked_example.rollout(
    np.zeros((3, 3)),
    [[2, 1, 2], [2, 1, 2], [0, 2, 0]],
    sample_mask=exists,
  )
  np.testing.assert_array_equal(
    step_transforms.has_others(rollout),
    [[False] * 3, [True, True, False], [True] * 3],
  )
  returns = jnp.array(
    [
      [[3, 4], [NAN, NAN], [NAN, NAN]],
      [[1, 0.5], [2, NAN], [NAN, NAN]],
      [[NAN, NAN], [5, 6], [NAN, NAN]],
    ]
  )
  # 2 / (1 * 4) and 1.5 / (1 * 4).
  baseline = step_transforms.minus_others_mean_return(horizon=4)
  expected = np.zeros((3, 3, 2))
  expected[1, 0], expected[1, 1, 0] = (0.5, 0), 2 - 0.375
  np.testing.assert_allclose(baseline.apply(returns, rollout, ())[0], expected)
