"""Worked example of PACS."""

import numpy as np
import pytest
from helpers import worked_example

from rl import methods


@pytest.mark.worked_example("method:pacs")
@pytest.mark.parametrize("balanced", [True, False])
def test_cross_entropy_of_implied_rewards(balanced):
  """Verdicts 1, 0, 0, and implied rewards 0.6, -0.3, 0.9; all right ones."""
  rollout = worked_example.rollout(
    np.full((2, 5), 7.0),
    [[2, 1, 3, 1, 2], [1, 1, 2, 1, 1]],
    correct=[[1, 0, 0, -1, 1], [1, 1, -1, -1, 0]],
    sample_mask=np.array([[True, True, True, True, False]] * 2),
  )
  old = np.full((2, 5, 3), -1.5)
  d = np.full((2, 5, 3), 0.9)
  d[0, 0], d[0, 1], d[0, 2] = [0.8, -0.2, 1], [-0.3, 1, 1], [0.1, 0.3, 0.5]
  d[1, 0, 0], d[1, 1, 0] = 0.4, -0.2
  loss, slopes = worked_example.loss(
    methods.get("pacs", balanced=balanced), rollout, old + d, old
  )
  # psi_i = r_i - the mean of the others' r; samples of unknown verdict count
  # nowhere.
  psi = np.array([0.6 - 0.3, -0.3 - 0.75, 0.9 - 0.15, 0.6, -0.6])
  right = np.array([1, 0, 0, 1, 1])
  # w_i = n / (2 n_c) in the mixed group: 3 / 2 and 3 / 4.
  w = np.array([1.5, 0.75, 0.75, 1, 1]) if balanced else np.ones(5)
  sigma = 1 / (1 + np.exp(-psi))
  bce = -right * np.log(sigma) - (1 - right) * np.log(1 - sigma)
  np.testing.assert_allclose(loss, np.mean(w * bce), rtol=1e-5)
  e = w * (sigma - right) / 5  # slopes in psi; d psi_i / d r_j = -1 / (n - 1)
  first = e[:3] - (e[:3].sum() - e[:3]) / 2
  second = e[3:] - e[3:][::-1]
  mask = np.arange(3) < np.array([2, 1, 3])[:, None]
  np.testing.assert_allclose(slopes[0, :3], first[:, None] * mask, atol=1e-6)
  np.testing.assert_allclose(slopes[1, :2, 0], second, atol=1e-6)
  assert not slopes[0, 3:].any()
  assert not slopes[1, 2:].any()
