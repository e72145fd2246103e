"""Worked example of max@k."""

import pytest
from helpers import clip_example, subset_example

from rl import methods


@pytest.mark.worked_example("method:max_at_k")
def test_gains_of_the_4_subsets():
  """A sample has what it adds to the maximum of the 4-subsets with it."""
  rollout = clip_example.rollout(subset_example.SCORES)
  m = methods.get("max_at_k")
  advantages = subset_example.by_group(subset_example.gains, 4)
  clip_example.check_advantages(m, rollout, advantages)
  # The sum over tokens of all samples, a mean over 2 prompts.
  weights = clip_example.mask(rollout) / 2
  clip_example.check_clip(
    m, rollout, advantages, weights, 0.2, 0.2, sides="above"
  )


@pytest.mark.worked_example("method:max_at_k")
def test_mean_score():
  """With k = 1, A is the score / n, here also below 0."""
  rollout = clip_example.rollout([0.9, 0, -0.6, -0.3])
  m = methods.get("max_at_k", k=1)
  advantages = [[0.3, 0, -0.2, -0.1]]
  clip_example.check_advantages(m, rollout, advantages)
  weights = clip_example.mask(rollout)
  clip_example.check_clip(m, rollout, advantages, weights, 0.2, 0.2)
