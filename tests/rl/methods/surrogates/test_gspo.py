"""Worked example of GSPO."""

import numpy as np
import pytest
from helpers import worked_example

from rl import methods


@pytest.mark.worked_example("method:gspo")
def test_sequence_ratios_and_narrow_clip():
  """s = exp(mean log rho), clipped to [1 - 3e-4, 1 + 4e-4]."""
  exists = np.array([[True] * 6 + [False]])
  rollout = worked_example.rollout(
    [1, 1, 1, 0, 0, 0, 9], [2, 3, 1, 3, 2, 1, 2], sample_mask=exists
  )
  # Mean log-ratios, in 1e-4; the tokens of a sample differ.
  log_ratios = np.array(
    [
      [9, -2, 0],  # 3.5: in the range, with A > 0
      [9, -3, 9],  # 5: above it
      [-6, 0, 0],  # below it, but A > 0
      [-8, 0, -2.5],  # -3.5: below it, A < 0
      [1, -5, 0],  # -2: in the range
      [7, 0, 0],  # above it, but A < 0
      [0, 0, 0],
    ]
  )
  old = np.full((1, 7, 3), np.log(0.2))
  loss, slopes = worked_example.loss(
    methods.get("gspo"), rollout, old + 1e-4 * log_ratios, old
  )
  # Scores 1, 1, 1, 0, 0, 0: the deviation (n - 1) is sqrt(6 / 4 / 5).
  a = 0.5 / np.sqrt(0.3)
  s = np.exp(1e-4 * np.array([3.5, 5, -6, -3.5, -2, 7]))
  clipped = np.array([s[0], 1 + 4e-4, s[2], 1 - 3e-4, s[4], s[5]])
  signs = np.array([1, 1, 1, -1, -1, -1])
  # The loss is small, because the mean of A is 0.
  np.testing.assert_allclose(loss, -np.mean(a * signs * clipped), atol=2e-7)
  # Slope - s A / (6 T_i) of each token, 0 where it is clipped.
  expected = -a * signs * s / 6 * [1, 0, 1, 0, 1, 1] / [2, 3, 1, 3, 2, 1]
  mask = np.arange(3) < np.array([2, 3, 1, 3, 2, 1])[:, None]
  np.testing.assert_allclose(
    slopes[0, :6], expected[:, None] * mask, rtol=1e-5, atol=1e-7
  )
  assert not slopes[0, 6].any()
