"""Worked example of OPO."""

import numpy as np
import pytest
from helpers import clip_example, worked_example

from rl import methods


@pytest.mark.worked_example("method:opo")
def test_mean_weighted_by_length():
  """Groups of 3, 1 and 2, and of 1, 3, 2 and 2 tokens."""
  rollout = clip_example.rollout([[1, 0, 0.2, 0.3], [0.9, 0.1, 0.4, 0]])
  m = methods.get("opo")
  b = (3 * 1 + 1 * 0.2 + 2 * 0.3) / (3 + 1 + 2)
  c = (1 * 0.9 + 3 * 0.1 + 2 * 0.4 + 2 * 0) / (1 + 3 + 2 + 2)
  advantages = np.array(
    [[1 - b, 0, 0.2 - b, 0.3 - b], [0.9 - c, 0.1 - c, 0.4 - c, -c]]
  )
  clip_example.check_advantages(m, rollout, advantages)
  # - A log pi, summed over tokens, a mean over 7 samples.
  weights = clip_example.mask(rollout) / 7
  clip_example.check_reinforce(m, rollout, advantages, weights)


def test_samples_without_a_token_and_equal_scores():
  """One token in all: the baseline is the score of the sample that has it."""
  rollout = worked_example.rollout([[0.9, 0.4], [0.2, 0.7]], [[1, 0], [0, 0]])
  clip_example.check_advantages(
    methods.get("opo"), rollout, [[0, -0.5], [0.2, 0.7]]
  )
  # (3 x 0.9 + 0.9 + 2 x 0.9) / 6 is not 0.9 in float32.
  rollout = worked_example.rollout([0.9] * 3, [3, 1, 2])
  assert not worked_example.advantages(methods.get("opo"), rollout).any()
