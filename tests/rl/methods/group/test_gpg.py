"""Worked example of GPG."""

import numpy as np
import pytest
from helpers import clip_example

from rl import methods


@pytest.mark.worked_example("method:gpg")
def test_rescaled_by_the_share_of_informative_samples():
  """Of 7 samples, 3 are in a group of differing scores, and 6 are not 0."""
  rollout = clip_example.rollout([[1, 0, 0, 0.5], [0.4, 0.4, 0.4, 0.4]])
  centered = np.array([[0.5, 0, -0.5, 0], [0, 0, 0, 0]])
  m = methods.get("gpg")
  clip_example.check_advantages(m, rollout, centered * 7 / 3)
  by_scores = methods.get("gpg", count="scores")
  clip_example.check_advantages(by_scores, rollout, centered * 7 / 6)
  # - A log pi, a mean over the 6 + 8 tokens.
  weights = clip_example.mask(rollout) / 14
  clip_example.check_reinforce(m, rollout, centered * 7 / 3, weights)
