"""Worked example of ACO (Genius)."""

import numpy as np
import pytest
from helpers import worked_example

from rl import methods


@pytest.mark.worked_example("method:aco")
@pytest.mark.parametrize(
  ("hyper", "f"), [({}, np.exp(1.2)), ({"alpha": 0.5}, 10)]
)
def test_calibrated_pair(hyper, f):
  """w = -0.8 of sample 0 is the highest, w = -2 of sample 1 the lowest."""
  # w is the mean after the first step; sample 2 has one step: -1.2.
  behavior = [[-9, -1, -0.6], [-0.1, -0.1, -2], [-1, -1.4, -7], [-5, -0.1, -6]]
  rollout = worked_example.rollout(
    [0, 0, 0, 0],
    steps=[[1, 2], [2, 1], [2], [1, 1]],
    behavior_log_probs=[behavior],
    sample_mask=np.array([[True, True, True, False]]),
  )
  log_probs = np.full((1, 4, 3), -0.5)
  ref = log_probs.copy()
  ref[0, 0] = -0.5 - np.array([0.7, -0.1, 0.4])  # d_+ = 1
  ref[0, 1] = -0.5 + np.array([0.2, 0.1, 0.3])  # d_- = -0.6
  ref[0, 2:] = -3
  m = methods.get("aco", **hyper)
  loss, slopes = worked_example.loss(m, rollout, log_probs, other={"ref": ref})
  # -log sigma(beta (d_+ - f d_-)), f = exp((w_+ - w_-) / alpha), at most 10.
  x = 0.1 * (1 + f * 0.6)
  np.testing.assert_allclose(loss, np.log1p(np.exp(-x)), rtol=1e-5)
  rate = 0.1 / (1 + np.exp(x))
  expected = np.zeros((4, 3))
  expected[0], expected[1] = -rate, f * rate
  np.testing.assert_allclose(slopes[0], expected, rtol=1e-4, atol=1e-8)
