"""Worked example of a method from an objective of the tail."""

import numpy as np
import pytest
from helpers import clip_example

from rl import methods


@pytest.mark.worked_example("method:from_value")
def test_the_log_truncated_after_four_terms():
  """Two right and three wrong samples; f' is 1 + q + q^2 + q^3."""
  example = clip_example.rollout([1, 0, 1, 0, 0, 0])
  # One right and one wrong sample left out: two wrong ones among three. The
  # estimates of q, q^2, q^3 are 2/3, (2 1)/(3 2) = 1/3 and 0; their sum with 1
  # is 2, over n - 1 = 4.
  advantages = np.array([[0.6, 0, 0.6, -0.4, -0.4, -0.4]]) * 2 / 4
  m = methods.get("from_value")
  clip_example.check_advantages(m, example, advantages)
  mask = clip_example.mask(example)  # a sum over the tokens of one prompt
  clip_example.check_clip(m, example, advantages, mask, 0.2, 0.2)


@pytest.mark.worked_example("method:from_value")
def test_two_right_samples_without_a_baseline():
  """f = p^2 = 1 - 2 q + q^2: the slope 2 p from three wrong of four others."""
  example = clip_example.rollout([1, 0, 1, 0, 0, 0])
  m = methods.get(
    "from_value", objective=(1, -2, 1), baseline="leave_one_out_minus_one"
  )
  # The estimate of 2 - 2 q is 2 - 2 * 3/4, over n = 5.
  advantages = np.array([[0.1, 0, 0.1, 0, 0, 0]])
  clip_example.check_advantages(m, example, advantages)


@pytest.mark.worked_example("method:from_value")
def test_one_right_sample_of_five():
  """All others are wrong: q, q^2 and q^3 are 1 for the right one."""
  example = clip_example.rollout([1, 0, 0, 0, 0, 0])
  # The estimate of f' is 4 without a right and a wrong sample, over n - 1 = 4.
  advantages = np.array([[0.8, 0, -0.2, -0.2, -0.2, -0.2]])
  clip_example.check_advantages(methods.get("from_value"), example, advantages)


@pytest.mark.worked_example("method:from_value")
def test_max_at_2_of_graded_scores():
  """The slope is 2 (j - 2) / 3 over 4: gaps .2, .3 and .1 from j = 3."""
  example = clip_example.rollout([0.5, 0, 0.6, 0, 0, 0.2])
  sums = np.cumsum(np.array([0.2, 0.3, 0.1]) * 2 * np.array([1, 2, 3]) / 3 / 4)
  mean = sums.sum() / 5
  advantages = np.array([[sums[1], mean, sums[2], 0, 0, sums[0]]]) - mean
  m = methods.get("from_value", objective="max@2")
  clip_example.check_advantages(m, example, advantages)
