"""Tests of implicit rewards and of the loss of their model."""

import jax.numpy as jnp
import numpy as np
from helpers import worked_example

from rl import types
from rl.methods.process import implicit

NAN = np.nan


def test_rewards_are_divided_by_the_largest_return_and_1e_6():
  """Returns are -2, -3; 2; and -3, -2 millionths; the divisor is 4."""
  rollout = worked_example.rollout(
    [[0, 0], [0, 0]],
    [[2, 1], [2, 2]],
    sample_mask=jnp.array([[True, True], [False, True]]),
  )
  rewards = jnp.array([[[1, -3], [2, NAN]], [[NAN, NAN], [-1, -2]]]) * 1e-6
  scaled, _ = implicit.divide_by_largest_return().apply(rewards, rollout, ())
  expected = [[[0.25, -0.75], [0.5, 0]], [[0, 0], [-0.25, -0.5]]]
  np.testing.assert_allclose(scaled, expected, rtol=1e-5)


def test_pairs_of_samples_that_exist():
  """Wrong, right, and both; in the first two the other one does not exist."""
  right = jnp.array([[0, 0, 1, 0], [1, 0, 1, 1], [1, 0, 1, 0]])
  valid = jnp.array([[1, 1, 0, 1], [1, 0, 1, 1], [1, 1, 1, 1]], bool)
  scores = jnp.array([[1.0, 2, 0, 3], [4, 0, 3, 1], [3, 2, 1, 0]])
  # 3 > 2, 3 > 0 and 1 > 0, but 1 < 2.
  accuracy = implicit.pair_accuracy(scores, right, valid)
  np.testing.assert_allclose(accuracy, [0.5, 0.5, 0.75])


def test_the_loss_logs_the_pair_accuracy_of_each_group():
  """r = 2 sum q; a sample without tokens is in no pair."""
  rollout = worked_example.rollout(
    np.zeros((2, 4)),
    [[1, 2, 2, 2], [2, 1, 0, 2]],
    correct=[[1, 0, 1, 1], [0, 1, 0, 0]],
    extras={"ref/log_probs": np.full((2, 4, 2), -3.0)},
  )
  q = [
    [[0.5, -9], [0.125, 0.25], [0.25, -0.125], [0.25, 0.25]],
    [[-0.25, 0.125], [0.75, -9], [9, 9], [0.25, 0.5]],
  ]
  policy = types.Named({"log_probs": jnp.array(q) - 3})
  _, metrics = implicit.implicit_cross_entropy(2.0).fn(None, policy, rollout)
  # Of 1/2, 1/8 and 1/2, two are above 3/8; 3/4 is above -1/8 and ties 3/4.
  np.testing.assert_allclose(metrics["pair_accuracy"], [2 / 3, 3 / 4])
