"""Worked example of QAE."""

import numpy as np
import pytest
from helpers import clip_example

from rl import methods


@pytest.mark.worked_example("method:qae")
def test_quantile_as_baseline():
  """Of 0.2, 0.3 and 1, the quantile 0.4 is 0.28; the variance is 0.19."""
  # Groups without a right or without a wrong sample are in no loss (DAPO).
  rollout = clip_example.rollout([1, 0, 0.2, 0.3], correct=[1, 0, 0, 0])
  m = methods.get("qae")
  # 0.2 + 0.8 (0.3 - 0.2): position 0.4 x (3 - 1) = 0.8 of the sorted scores.
  centered = np.array([[0.72, 0, -0.08, 0.02]])
  advantages = centered / (np.sqrt(0.19) + 1e-6)
  clip_example.check_advantages(m, rollout, advantages)
  other = methods.get("qae", ddof=0, eps=0.1)
  advantages_of_other = centered / (np.sqrt(0.38 / 3) + 0.1)
  clip_example.check_advantages(other, rollout, advantages_of_other)
  # A mean over the 6 tokens, clipped to 0.8 and 1.28.
  weights = clip_example.mask(rollout) / 6
  clip_example.check_clip(m, rollout, advantages, weights, 0.2, 0.28)
