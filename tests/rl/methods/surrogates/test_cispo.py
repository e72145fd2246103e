"""Worked example of CISPO."""

import numpy as np
import pytest
from helpers import worked_example

from rl import methods


@pytest.mark.worked_example("method:cispo")
def test_clipped_weights():
  """Ratios below and above 1 + 4; a clipped token keeps its gradient."""
  exists = np.array([[True, True, True, True, False]])
  rollout = worked_example.rollout(
    [1, 0, 0, 0, 9], [2, 2, 1, 1, 2], sample_mask=exists
  )
  old = np.full((1, 5, 2), np.log(0.1))
  rho = np.ones((1, 5, 2))
  rho[0, :4] = [[6, 0.1], [5.5, 2], [4.5, 1], [0.2, 1]]
  log_probs = old + np.log(rho)
  loss, slopes = worked_example.loss(
    methods.get("cispo"), rollout, log_probs, old
  )
  # sg[clip(rho, 0, 5)] A log pi with A = 3/2 and -1/2, a mean over 6 tokens.
  weights = np.zeros((5, 2))
  weights[:4] = [
    [5 * 1.5, 0.1 * 1.5],
    [5 * -0.5, 2 * -0.5],
    [4.5 * -0.5, 0],
    [-0.1, 0],
  ]
  np.testing.assert_allclose(loss, -np.sum(weights * log_probs[0]) / 6, 1e-5)
  np.testing.assert_allclose(slopes[0], -weights / 6, atol=1e-5)
