"""Worked example of PROF."""

import numpy as np
import pytest
from helpers import worked_example

from rl import methods


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
  wanted = np.zeros((9, 3))
  wanted[0, 1], wanted[2], wanted[5, 0], wanted[6, 1] = (
    -a * [0.7, 1.1, 1.4, 0.9] / 8
  )
  np.testing.assert_allclose(slopes[0], wanted, atol=1e-6)
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
