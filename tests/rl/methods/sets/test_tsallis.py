"""Worked example of the mean score, amplified by a power of the rate."""

import numpy as np
import pytest
from helpers import clip_example

from rl import methods


@pytest.mark.worked_example("method:tsallis")
def test_two_right_samples_of_five():
  """3/4 for a right sample and -2/4 for a wrong one, times .4^-q / 5."""
  example = clip_example.rollout([0.5, 0, 0.6, 0, 0, 0])
  advantages = np.array([[0.75, 0, 0.75, -0.5, -0.5, -0.5]]) / 5 * 0.4**-0.75
  m = methods.get("tsallis")
  clip_example.check_advantages(m, example, advantages)
  mask = clip_example.mask(example)
  clip_example.check_clip(m, example, advantages, mask, 0.2, 0.2)


def test_the_ends_are_the_mean_and_log():
  example = clip_example.rollout([0.5, 0, 0.6, 0, 0, 0])
  mean = np.array([[0.75, 0, 0.75, -0.5, -0.5, -0.5]]) / 5
  clip_example.check_advantages(methods.get("tsallis", q=0.0), example, mean)
  # (r - mean r) / mean r, over n - 1 in place of n.
  log = np.array([[1.5, 0, 1.5, -1, -1, -1]]) / 4
  clip_example.check_advantages(methods.get("tsallis", q=1.0), example, log)
  none = clip_example.rollout([0.0] * 6)
  clip_example.check_advantages(methods.get("tsallis"), none, np.zeros((1, 6)))


def test_q_is_a_power_between_them():
  with pytest.raises(ValueError, match=r"q = 1\.5 must be from 0 to 1"):
    methods.get("tsallis", q=1.5)
