"""Worked example of PRDP."""

import itertools

import numpy as np
import pytest
from helpers import worked_example

from rl import methods


@pytest.mark.worked_example("method:prdp")
def test_squared_errors_of_pairs():
  """The larger squared error of two, with log pi within 0.2 of log pi_old."""
  rewards = np.array([0.3, 0.5, -0.4])
  rollout = worked_example.rollout(
    [*rewards, 8],
    [2, 1, 3, 1],
    sample_mask=np.array([[True, True, True, False]]),
  )
  mask = np.arange(3) < np.array([2, 1, 3])[:, None]
  moves = np.array([[0.3, -0.1, 4], [-0.5, 4, 4], [0.1, 0.25, -0.4]]) * mask
  to_ref = np.array([[2, -1, 4], [-3, 4, 4], [1, 0.5, -2]]) * mask
  old = np.full((1, 4, 3), -4.0)
  log_probs, ref = old.copy(), old.copy()
  log_probs[0, :3] += moves
  ref[0, :3] -= to_ref
  loss, slopes = worked_example.loss(
    methods.get("prdp"), rollout, log_probs, old, other={"ref": ref}
  )
  # beta d_i - R_i with beta = 0.1, without and with the clip.
  error = 0.1 * (to_ref + moves).sum(-1) - rewards
  clipped = 0.1 * (to_ref + np.clip(moves, -0.2, 0.2)).sum(-1) - rewards
  value, expected, choices = 0.0, np.zeros((3, 3)), set()
  for i, j in itertools.combinations(range(3), 2):
    e, c = error[i] - error[j], clipped[i] - clipped[j]
    is_clipped = c**2 > e**2
    choices.add(bool(is_clipped))
    value += max(e**2, c**2) / 3
    free = np.abs(moves) < 0.2 if is_clipped else np.ones((3, 3))
    slope = 2 * 0.1 * (c if is_clipped else e) / 3
    expected[i] += slope * free[i]
    expected[j] -= slope * free[j]
  assert choices == {True, False}
  np.testing.assert_allclose(loss, value, rtol=1e-5)
  np.testing.assert_allclose(slopes[0, :3], expected * mask, atol=1e-6)
  assert not slopes[0, 3].any()
