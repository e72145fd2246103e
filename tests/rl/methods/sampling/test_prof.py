"""Worked example of PROF."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rl import methods
from rl.methods.sampling import prof


@pytest.mark.worked_example("method:prof")
def test_consistent_half_of_a_group():
  """Seven samples with a verdict: four are kept, two of each."""
  # Means of the step scores of the right samples: 0.5, 0.2, 0.4, 0.1.
  # Of the wrong ones: 0.6, 0.3, 0.35. The others are unknown, or do not exist.
  steps = [[1, 1], [1], [2, 1], [1], [1, 1], [1], [1, 1], [1], [1]]
  step_scores = [
    [0.9, 0.1],
    [0.2],
    [0.3, 0.5],
    [0.1],
    [1, 0.2],
    [0.3],
    [0.5, 0.2],
    [5],
    [-5],
  ]
  rollout = worked_example.rollout(
    [3, 5, 2, 7, 0, 1, -1, 50, 60],
    steps=steps,
    step_scores=step_scores,
    correct=[1, 1, 1, 1, 0, 0, 0, -1, 1],
    sample_mask=np.array([[True] * 8 + [False]]),
  )
  m = methods.get("prof")
  selected = worked_example.apply(m.sample_filter, rollout)[0]
  np.testing.assert_array_equal(np.flatnonzero(selected), [0, 2, 5, 6])
  # Scores 3, 2, 1, -1 of the kept ones: the mean is 1.25.
  a = np.array([1.75, 0.75, -0.25, -2.25]) / np.sqrt(8.75 / 3)
  old = np.full((1, 9, 3), np.log(0.2))
  rho = np.ones((9, 3))
  rho[0, :2], rho[2], rho[5, 0], rho[6, :2] = [1.3, 0.7], 1.1, 1.4, [0.75, 0.9]
  loss, slopes = worked_example.loss(m, rollout, old + np.log(rho), old)
  # PPO-clip, a mean over the 8 tokens of the kept samples.
  value = a @ [1.2 + 0.7, 3.3, 1.4, 0.8 + 0.9]
  np.testing.assert_allclose(loss, -value / 8, rtol=1e-5)
  expected = np.zeros((9, 3))
  expected[0, 1], expected[2], expected[5, 0], expected[6, 1] = (
    -a * [0.7, 1.1, 1.4, 0.9] / 8
  )
  np.testing.assert_allclose(slopes[0], expected, atol=1e-6)
  # Samples 1, 3 and 5 have one step. With a bonus of 0.35 for one step, c is
  # 0.5, 0.55, 0.4, 0.45 and -0.6, -0.65, -0.35; with a penalty of 0.4 it is 0.1
  # for sample 5. If two steps are very many, all samples have the bonus.
  for penalty, most, samples in (
    (-0.35, 30, [0, 1, 4, 6]),
    (0.4, 30, [0, 2, 5, 6]),
    (-0.35, 2, [0, 2, 5, 6]),
  ):
    m = methods.get("prof", penalty=penalty, most_steps=most)
    selected = worked_example.apply(m.sample_filter, rollout)[0]
    np.testing.assert_array_equal(np.flatnonzero(selected), samples)


def selected(correct, steps, step_scores, **settings):
  """Returns the indices of the samples that are kept."""
  rollout = worked_example.rollout(
    correct, correct=correct, steps=steps, step_scores=step_scores
  )
  m = methods.get("prof", **settings)
  selection = worked_example.apply(m.sample_filter, rollout)
  return np.flatnonzero(selection).tolist()


@pytest.mark.worked_example("method:prof")
def test_thirty_steps_are_very_many():
  """c is 0.5 and 0.6 - 0.3 of the right samples, -0.2 and -0.1 if wrong."""
  steps = [[1] * 29, [1] * 30, [1, 1], [1, 1]]
  step_scores = [[0.5] * 29, [0.6] * 30, [0.2] * 2, [0.1] * 2]
  assert selected([1, 1, 0, 0], steps, step_scores, penalty=0.3) == [0, 3]


def test_the_number_of_samples_is_rounded_up():
  """1.00015 samples are 2, and 7/13 of 13 are 7, despite rounding errors."""
  steps, step_scores = [[1]] * 13, [[0.0]] * 13
  selection = selected([1, 1], steps[:2], step_scores[:2], share=0.500075)
  assert selection == [0, 1]
  assert len(selected([1] * 13, steps, step_scores, share=7 / 13)) == 7


def test_of_two_equally_good_numbers_of_right_samples_the_larger():
  """Two of 3 samples are right, if as many exist."""
  right, wrong = jnp.array([3, 1, 0, 3]), jnp.array([3, 3, 4, 0])
  numbers = prof.balanced_counts(right, wrong, jnp.full(4, 3))
  np.testing.assert_array_equal(numbers, [2, 1, 0, 3])


@pytest.mark.parametrize("share", [0.0, 1.001])
def test_a_share_that_keeps_none_or_more_than_all_is_refused(share):
  with pytest.raises(ValueError, match="of the samples must be above 0"):
    methods.get("prof", share=share)
