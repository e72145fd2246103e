"""Worked example of RLOO."""

import pytest
from helpers import clip_example

from rl import methods


@pytest.mark.worked_example("method:rloo")
def test_mean_of_the_others():
  """Scores 1, 0.2 and 0.3: the means of the others are 0.25, 0.65 and 0.6."""
  rollout = clip_example.rollout([1, 0, 0.2, 0.3])
  advantages = [[0.75, 0, -0.45, -0.3]]
  clip_example.check_advantages(methods.get("rloo"), rollout, advantages)
  # - A log pi, summed over tokens, a mean over 3 samples.
  weights = clip_example.mask(rollout) / 3
  clip_example.check_reinforce(
    methods.get("rloo"), rollout, advantages, weights
  )
