"""Worked example of DISPO."""

import numpy as np
import pytest
from helpers import worked_example

from rl import methods


@pytest.mark.worked_example("method:dispo")
def test_bounds_by_the_sign_of_the_advantage():
  """Weights in [0.8, 11] where A > 0, in [0, 101] elsewhere; two groups."""
  rollout = worked_example.rollout(
    [[1, 0, 0, 0, 9], [2, 4, 3, 1, 9]],
    [[3, 3, 2, 1, 3], [1, 3, 3, 2, 1]],
    correct=[[1, 0, 0, 0, 1], [1, 1, 1, 1, 0]],  # the second is not mixed
    sample_mask=np.array([[True] * 4 + [False]] * 2),
  )
  old = np.full((2, 5, 3), np.log(0.005))
  rho = np.ones((2, 5, 3))
  rho[0, :4] = [[20, 0.5, 10.5], [110, 0.1, 100.5], [0.9, 12, 1], [0.7, 1, 1]]
  log_probs = old + np.log(rho)
  loss, slopes = worked_example.loss(
    methods.get("dispo"), rollout, log_probs, old
  )
  # sg[clip(rho)] A log pi, A = 3/2 and -1/2, a mean over the 9 tokens of the
  # mixed group.
  weights = np.zeros((2, 5, 3))
  weights[0, 0] = [11 * 1.5, 0.8 * 1.5, 10.5 * 1.5]
  weights[0, 1] = [101 * -0.5, 0.1 * -0.5, 100.5 * -0.5]
  weights[0, 2, :2] = [0.9 * -0.5, 12 * -0.5]
  weights[0, 3, 0] = 0.7 * -0.5
  np.testing.assert_allclose(loss, -np.sum(weights * log_probs) / 9, 1e-5)
  np.testing.assert_allclose(slopes, -weights / 9, rtol=1e-4)
