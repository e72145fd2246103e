"""Worked example of Lite PPO."""

import numpy as np
import pytest
from helpers import clip_example

from rl import methods


@pytest.mark.worked_example("method:lite_ppo")
def test_mean_of_the_group_and_deviation_of_the_batch():
  """Means 0.5 and 0.4 of the groups; mean 3.1 / 7 of the batch."""
  rollout = clip_example.rollout([[1, 0, 0.2, 0.3], [0.9, 0.1, 0.4, 0.2]])
  m = methods.get("lite_ppo")
  centered = np.array([[0.5, 0, -0.3, -0.2], [0.5, -0.3, 0, -0.2]])
  # 1 + 0.04 + 0.09 + 0.81 + 0.01 + 0.16 + 0.04 = 2.15, divided by 7.
  std = np.sqrt(2.15 / 7 - (3.1 / 7) ** 2)
  advantages = centered / (std + 1e-6)
  clip_example.check_advantages(m, rollout, advantages)
  # Small scores, where eps = 1e-6 matters.
  small = rollout.replace(scores=rollout.scores * 1e-4)
  expected = centered * 1e-4 / (std * 1e-4 + 1e-6)
  clip_example.check_advantages(m, small, expected)
  # With n - 1 = 6, and an eps of 0.1.
  std = np.sqrt((2.15 - 3.1**2 / 7) / 6)
  other = methods.get("lite_ppo", ddof=1, eps=0.1)
  clip_example.check_advantages(other, rollout, centered / (std + 0.1))
  # A mean over the 6 + 8 tokens.
  weights = clip_example.mask(rollout) / 14
  clip_example.check_clip(m, rollout, advantages, weights, 0.2, 0.2)
