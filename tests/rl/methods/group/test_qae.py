"""Worked example of QAE."""

import numpy as np
import pytest
from helpers import clip_example

from rl import methods


@pytest.mark.worked_example("method:qae")
def test_quantile_as_baseline():
  """Quantiles 0.4 are 0.28 and 0.16, and variances 0.19 and 0.405 / 3."""
  # Groups without a right or without a wrong sample are in no loss (DAPO).
  rollout = clip_example.rollout(
    [[1, 0, 0.2, 0.3], [0.85, 0.1, 0.4, 0.05]],
    correct=[[1, 0, 0, 0], [1, 0, 0, 0]],
  )
  m = methods.get("qae")
  # 0.2 + 0.8 (0.3 - 0.2): position 0.4 x (3 - 1) = 0.8 of the sorted scores.
  # 0.1 + 0.2 (0.4 - 0.1): position 0.4 x (4 - 1) = 1.2.
  centered = np.array([[0.72, 0, -0.08, 0.02], [0.69, -0.06, 0.24, -0.11]])
  squares = np.array([[0.38], [0.405]])  # sums of (R - mean R)^2
  advantages = centered / (np.sqrt(squares / [[2], [3]]) + 1e-6)
  clip_example.check_advantages(m, rollout, advantages)
  # Small scores, where eps = 1e-6 matters.
  small = rollout.replace(scores=rollout.scores * 1e-4)
  std = np.sqrt(squares / [[2], [3]])
  expected = centered * 1e-4 / (std * 1e-4 + 1e-6)
  clip_example.check_advantages(m, small, expected)
  other = methods.get("qae", ddof=0, eps=0.1)
  advantages_of_other = centered / (np.sqrt(squares / [[3], [4]]) + 0.1)
  clip_example.check_advantages(other, rollout, advantages_of_other)
  # A mean over the 14 tokens, clipped to 0.8 and 1.28.
  weights = clip_example.mask(rollout) / 14
  clip_example.check_clip(m, rollout, advantages, weights, 0.2, 0.28)
