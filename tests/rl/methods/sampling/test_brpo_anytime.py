"""Worked example of anytime reasoning (BRPO)."""

import numpy as np
import pytest
from helpers import clipped_group, worked_example

from rl import methods


@pytest.mark.worked_example("method:brpo_anytime")
def test_advantages_of_budgets_and_clip():
  """Scores of three budgets of two samples: 0.3, 0.9, 0.6, and 0, 1, 0.5."""
  steps = [[1, 1, 1], [1, 1, 1], [1, 1, 1], [1, 1, 1]]
  rollout = worked_example.rollout(
    [0, 0, 9, 9],
    steps=steps,
    step_scores=[[0.3, 0.9, 0.6], [0, 1, 0.5], [7, 8, 9], [1, 2, 3]],
    sample_mask=np.array([[True, True, False, False]]),
  )
  # Returns from budget s on: sum of the scores j >= s, divided by K = 3.
  returns = np.array([[0.6, 0.5, 0.2], [0.5, 0.5, 0.5 / 3]])
  # V1: (3 - s) / 3 times the mean of the scores j < s with weights 1, 2.
  v1 = np.array([[0, 2 / 3 * 0.3, (0.3 + 1.8) / 9], [0, 0, (0 + 2) / 9]])
  v2 = np.array([0.55, 0.5, (0.2 + 0.5 / 3) / 2])  # the mean over the group
  s = np.arange(3)
  a = returns - (s * v1 + (3 - s) * v2) / 3
  m = methods.get("brpo_anytime")["policy"]
  actual = worked_example.advantages(m, rollout)[0]
  np.testing.assert_allclose(actual, [*a, [0] * 3, [0] * 3], atol=1e-6)
  # PPO-clip, a mean over the tokens of each sample, then over samples.
  old = np.full((1, 4, 3), np.log(0.2))
  rho = np.ones((4, 3))
  rho[:2] = [[1.3, 1.3, 0.7], [0.75, 0.7, 1.4]]
  loss, slopes = worked_example.loss(m, rollout, old + np.log(rho), old)
  rho = rho[:2]
  values = np.minimum(rho * a, np.clip(rho, 0.8, 1.2) * a)
  np.testing.assert_allclose(loss, -np.sum(values) / 6, rtol=1e-5, atol=1e-6)
  is_clipped = ((a > 0) & (rho > 1.2)) | ((a < 0) & (rho < 0.8))
  np.testing.assert_allclose(
    slopes[0, :2], np.where(is_clipped, 0, -rho * a) / 6, atol=1e-6
  )
  assert not slopes[0, 2:].any()


@pytest.mark.worked_example("method:brpo_anytime")
def test_reinforce_of_the_completions():
  """The score minus 1/4, without a division, a ratio and a clip."""
  m = methods.get("brpo_anytime")["summary"]
  a = np.array([0.75, -0.25, -0.25, -0.25, 0])[:, None]
  weights = clipped_group.SAMPLE_MEAN * a
  log_probs = np.log(clipped_group.OLD * clipped_group.RATIOS)
  expected = -np.sum(weights * log_probs), -weights
  clipped_group.check_loss(m, clipped_group.group(), expected)
