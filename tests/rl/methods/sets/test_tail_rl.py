"""Worked examples of TailRL."""

import numpy as np
import pytest
from helpers import clip_example

from rl import methods

SCORES = [0.5, 0, 0.6, 0, 0, 0.2]  # the second sample does not exist


@pytest.mark.worked_example("method:tail_rl")
def test_gaps_over_the_number_of_samples_above():
  """0, 0, .2, .5 and .6: gaps 0, .2, .3, .1 below 4, 3, 2 and 1 samples."""
  example = clip_example.rollout(SCORES)
  low, middle, high = 0.2 / 3, 0.2 / 3 + 0.3 / 2, 0.2 / 3 + 0.3 / 2 + 0.1
  mean = 0.6 / 5
  advantages = np.array([[middle, mean, high, 0, 0, low]]) - mean
  m = methods.get("tail_rl")
  clip_example.check_advantages(m, example, advantages)
  mask = clip_example.mask(example)  # a sum over the tokens of one prompt
  clip_example.check_clip(m, example, advantages, mask, 0.2, 0.2)


@pytest.mark.worked_example("method:tail_rl")
def test_from_a_floor_without_a_mean():
  """With x_0 = -1, the gap below all five samples is 1."""
  example = clip_example.rollout(SCORES)
  low = 1 / 5 + 0.2 / 3
  advantages = [[low + 0.15, 0, low + 0.25, 1 / 5, 1 / 5, low]]
  m = methods.get("tail_rl", baseline="leave_one_out_minus_one", floor=-1.0)
  clip_example.check_advantages(m, example, np.array(advantages))


@pytest.mark.worked_example("method:tail_rl")
def test_degree_two():
  """The slope is 1 + (j - 2) / 3 over 4, below the j-th of five samples."""
  example = clip_example.rollout(SCORES)
  gaps = np.array([0, 0.2, 0.3, 0.1])
  sums = np.cumsum(gaps * (1 + np.arange(4) / 3) / 4)
  mean = (sums[1] + sums[2] + sums[3]) / 5
  advantages = np.array([[sums[2], mean, sums[3], 0, 0, sums[1]]]) - mean
  m = methods.get("tail_rl", degree=2)
  clip_example.check_advantages(m, example, advantages)


@pytest.mark.worked_example("method:tail_rl")
def test_shares_of_thresholds():
  """The thresholds are .1, .2 and .55: .2 exceeds one, .5 two, .6 all."""
  example = clip_example.rollout(SCORES)
  sums = np.cumsum(np.array([0, 1 / 3, 1 / 3, 1 / 3]) / np.array([4, 3, 2, 1]))
  mean = 1 / 5
  advantages = np.array([[sums[2], mean, sums[3], 0, 0, sums[1]]]) - mean
  m = methods.get("tail_rl", thresholds=(0.1, 0.2, 0.55))
  clip_example.check_advantages(m, example, advantages)
