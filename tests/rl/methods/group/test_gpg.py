"""Worked example of GPG."""

import numpy as np
import pytest
from helpers import clip_example

from rl import methods


@pytest.mark.worked_example("method:gpg")
def test_rescaled_by_the_share_of_informative_samples():
  """Of 7 samples, 3 are in a group of differing scores, and 6 are not 0."""
  rollout = clip_example.rollout([[1.5, 0, 0, 0.6], [0.4, 0.4, 0.4, 0.4]])
  centered = np.array([[0.8, 0, -0.7, -0.1], [0, 0, 0, 0]])
  m = methods.get("gpg")
  clip_example.check_advantages(m, rollout, centered * 7 / 3)
  by_scores = methods.get("gpg", count="scores")
  clip_example.check_advantages(by_scores, rollout, centered * 7 / 6)
  # One score of three is not 0: alpha = 3.
  single = clip_example.rollout([0.9, 0, 0, 0])
  clip_example.check_advantages(by_scores, single, [[1.8, 0, -0.9, -0.9]])
  # Small differences are informative, too.
  small = clip_example.rollout([[0.6, 0, 0.5, 0.4], [0.4, 0.4, 0.4, 0.4]])
  expected = [[0.1 * 7 / 3, 0, 0, -0.1 * 7 / 3], [0, 0, 0, 0]]
  clip_example.check_advantages(m, small, expected)
  # - A log pi, a mean over the 6 + 8 tokens.
  weights = clip_example.mask(rollout) / 14
  clip_example.check_reinforce(m, rollout, centered * 7 / 3, weights)
