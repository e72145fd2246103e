"""Worked example of StableReinforce."""

import numpy as np
import pytest
from helpers import worked_example

from rl import methods


@pytest.mark.worked_example("method:stable_reinforce")
def test_outliers_and_bounded_ratios():
  """Twelve scores: 12 in one sample, 1 in two, -1 in two; one is an outlier."""
  scores = [12, 1, 1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 99]
  lengths = [1, 2, 1, 2, 1] + [1] * 7 + [2]
  exists = np.array([[True] * 12 + [False]])
  rollout = worked_example.rollout(scores, lengths, sample_mask=exists)
  m = methods.get("stable_reinforce")
  # The mean is 1 and the variance (144 + 4 - 12) / 11, by n - 1.
  a = (np.array(scores[:12]) - 1) / np.sqrt(136 / 11)
  a[0] = 0  # 3.13 > 3
  np.testing.assert_allclose(
    worked_example.advantages(m, rollout), [[*a, 0]], rtol=1e-5, atol=1e-6
  )
  # Scores of 1 have A = 0.
  old = np.full((1, 13, 2), np.log(2e-4))
  rho = np.ones((13, 2))
  rho[3] = [2000, 0.7]  # beyond the bound 1000 of the ratio; below the clip
  rho[4, 0], rho[5, 0], rho[6, 0] = 900, 1.3, 0.75
  loss, slopes = worked_example.loss(m, rollout, old + np.log(rho), old)
  # - min(rho A, clip(rho, 0.8, 1.2) A), a mean over tokens, then over samples.
  values = a.copy()
  values[3] = a[3] * (1000 + 0.8) / 2
  values[4], values[5], values[6] = a[4] * 900, a[5] * 1.3, a[6] * 0.8
  np.testing.assert_allclose(loss, -np.sum(values) / 12, rtol=1e-5)
  expected = np.zeros((13, 2))
  expected[:12, 0] = -a / 12
  expected[3], expected[6, 0] = 0, 0
  expected[4, 0], expected[5, 0] = -a[4] * 900 / 12, -a[5] * 1.3 / 12
  np.testing.assert_allclose(slopes[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.worked_example("method:stable_reinforce")
def test_the_reward_of_the_judge():
  """0.5 format + accuracy (1 + 0.5 consistency), then z-scores of the batch."""
  rollout = worked_example.rollout(
    [9, 9, 9],
    components={"f": [1, 0.5, 0], "a": [0.5, 1, 0], "c": [0.25, 0.5, 1]},
  )
  m = methods.get("stable_reinforce", parts=("f", "a", "c"))
  # Rewards 0.5 + 0.5 * 1.125, 0.25 + 1.25 and 0.
  rewards = np.array([1.0625, 1.5, 0])
  expected = (rewards - rewards.mean()) / rewards.std(ddof=1)
  np.testing.assert_allclose(
    worked_example.advantages(m, rollout), [expected], rtol=1e-5
  )
