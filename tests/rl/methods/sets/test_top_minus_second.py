"""Worked example of top minus second."""

import numpy as np
import pytest
from helpers import clip_example

from rl import methods


@pytest.mark.worked_example("method:top_minus_second")
def test_lead_of_the_best():
  """Leads of 0.3 and 0.5, no lead of two equals, and scores below 0."""
  scores = [
    [0.9, 0, 0.1, 0.6],
    [0.2, 0.7, 0.7, 0.4],
    [-0.9, -0.4, -0.8, -0.1],
    [0.1, 0.4, 1.2, 0.7],
    [0.5, 0.6, 0.8, 0.2],
  ]
  rollout = clip_example.rollout(scores)
  # The last group has a single sample.
  rollout = rollout.replace(
    sample_mask=rollout.sample_mask.at[4, 1:].set(False)
  )
  advantages = np.zeros((5, 4))
  advantages[0, 0], advantages[2, 3], advantages[3, 2] = 0.3, 0.3, 0.5
  m = methods.get("top_minus_second")
  clip_example.check_advantages(m, rollout, advantages)
  # Divided by the standard deviation (n - 1) of the group.
  stds = [np.std([0.9, 0.1, 0.6], ddof=1)]
  stds += list(np.std(scores[1:], -1, ddof=1))
  scaled = methods.get("top_minus_second", scaled=True)
  expected = advantages / (np.array(stds)[:, None] + 1e-6)
  clip_example.check_advantages(scaled, rollout, expected)
  # Small scores, where the 1e-6 matters.
  small = rollout.replace(scores=rollout.scores * 1e-4)
  expected = advantages * 1e-4 / (np.array(stds)[:, None] * 1e-4 + 1e-6)
  clip_example.check_advantages(scaled, small, expected)
  # The sum over tokens of all samples, a mean over 5 prompts.
  weights = clip_example.mask(rollout) / 5
  clip_example.check_clip(
    m, rollout, advantages, weights, 0.2, 0.2, sides="above"
  )
