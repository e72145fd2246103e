"""Worked example of ReMax."""

import numpy as np
import pytest
from helpers import clip_example

from rl import methods


@pytest.mark.worked_example("method:remax")
def test_score_of_the_greedy_completion():
  """The greedy completions of three prompts have 0.4, 0.7 and no score."""
  rollout = clip_example.rollout(
    [[1, 0, 0.2], [0.5, 0.9, 0], [0.3, 0.1, 0.8]],
    extras={"sampler/greedy_scores": np.array([0.4, 0.7, np.nan])},
  )
  m = methods.get("remax")
  advantages = np.array([[0.6, 0, -0.2], [-0.2, 0.2, -0.7], [0, 0, 0]])
  # - A log pi, summed over tokens, a mean over 8 samples.
  weights = clip_example.mask(rollout) / 8
  clip_example.check_reinforce(m, rollout, advantages, weights)
