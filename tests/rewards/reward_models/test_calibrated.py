"""Tests of `rewards.reward_models.calibrated`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rewards.reward_models import calibrated


def test_calibration_of_low_scores():
  result = calibrated.calibrated_scores(
    jnp.array([0.2, 0.45, 0.5, 0.9, 1.5]),
    jnp.array([1.0, 0.5, 1.0, jnp.nan, 1.0]),
  )
  # Only a score that is raised is limited to 1.
  np.testing.assert_allclose(result, [0.3, 0.5, 0.5, 0.9, 1.5], rtol=1e-6)


@pytest.mark.worked_example(
  "reward:calibrated", "function:calibrated.calibrated_scores"
)
def test_scores_below_at_and_above_the_threshold():
  """The released code's threshold 0.5 and weight 0.1, and others."""
  rollout = worked_example.rollout(
    np.full(4, 9),
    components={"rm": [0.25, 0.5, 0.9, 0.49], "p": [0.7, 1, 0.8, 0.9]},
  )
  np.testing.assert_allclose(
    worked_example.reward("calibrated", rollout, model="rm", phrases="p"),
    [[0.25 + 0.07, 0.5, 0.9, 0.49 + 0.09]],
    rtol=1e-6,
  )
  result = worked_example.reward(
    "calibrated", rollout, model="rm", phrases="p", below=0.5, weight=0.75
  )
  # min(1, r + 0.75 p)
  np.testing.assert_allclose(result, [[0.775, 0.5, 0.9, 1]], rtol=1e-6)
