"""Worked example of TOPR."""

import numpy as np
import pytest
from helpers import worked_example

from rl import methods


@pytest.mark.worked_example("method:topr")
@pytest.mark.parametrize(
  ("baseline", "a"), [(0.0, (1, -1)), (0.4, (0.6, -1.4))]
)
def test_tapered_weights(baseline, a):
  """w = 1 for right samples, min(rho, 1) of the whole sample for wrong ones."""
  # Samples: two right, two wrong, one unknown, and one that does not exist.
  rollout = worked_example.rollout(
    [0, 0, 5, 0, 0, 0],
    [2, 1, 3, 2, 1, 2],
    correct=[1, 1, 0, 0, -1, 1],
    sample_mask=np.array([[True] * 5 + [False]]),
    behavior_log_probs=np.full((1, 6, 3), np.log(0.1)),
  )
  rho = np.array(
    [[2, 0.2, 1], [3, 1, 1], [0.5, 2, 0.6], [4, 0.75, 1], [2, 1, 1], [2, 2, 1]]
  )
  log_probs = np.log(0.1 * rho)[None]
  loss, slopes = worked_example.loss(
    methods.get("topr", baseline=baseline),
    rollout,
    log_probs,
    old=np.full((1, 6, 3), np.log(0.3)),  # in no ratio
  )
  m = methods.get("topr", baseline=baseline)
  np.testing.assert_allclose(
    worked_example.advantages(m, rollout)[0, :5],
    [a[0], a[0], a[1], a[1], 0],
    rtol=1e-6,
  )
  # rho of wrong samples: 0.5 * 2 * 0.6 = 0.6, and 4 * 0.75 = 3, clipped to 1.
  weights = np.zeros((6, 3))
  weights[0, :2] = weights[1, :1] = a[0]
  weights[2], weights[3, :2] = 0.6 * a[1], a[1]
  # A sum over tokens, averaged over the four samples with a verdict.
  np.testing.assert_allclose(loss, -np.sum(weights * log_probs[0]) / 4, 1e-5)
  np.testing.assert_allclose(slopes[0], -weights / 4, atol=1e-6)
