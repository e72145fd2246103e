"""Worked example of OPO."""

import numpy as np
import pytest
from helpers import clip_example

from rl import methods


@pytest.mark.worked_example("method:opo")
def test_mean_weighted_by_length():
  """Scores 1, 0.2 and 0.3 of 3, 1 and 2 tokens: the baseline is 3.8 / 6."""
  rollout = clip_example.rollout([1, 0, 0.2, 0.3])
  m = methods.get("opo")
  b = (3 * 1 + 1 * 0.2 + 2 * 0.3) / (3 + 1 + 2)
  advantages = np.array([[1 - b, 0, 0.2 - b, 0.3 - b]])
  clip_example.check_advantages(m, rollout, advantages)
  # - A log pi, summed over tokens, a mean over 3 samples.
  weights = clip_example.mask(rollout) / 3
  clip_example.check_reinforce(m, rollout, advantages, weights)
