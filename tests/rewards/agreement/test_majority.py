"""Tests of `rewards.agreement.majority`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.agreement import cluster_share, co_reward, majority
from rewards.agreement import votes as votes_rewards

cluster_share = compiled.functions(cluster_share)
majority = compiled.functions(majority)


def test_majority_is_the_verdict_where_the_mode_is_right():
  answers = jnp.array([[7, 7, 2, -1, 7], [3, 3, 9, 9, -1]])
  result = majority.majority_scores(answers)
  np.testing.assert_array_equal(result, [[1, 1, 0, 0, 1], [1, 1, 0, 0, 0]])
  unsure = majority.majority_scores(answers, threshold=0.5)
  np.testing.assert_array_equal(unsure, [[1, 1, 0, 0, 1], [0] * 5])
  valid = jnp.ones(answers.shape, bool).at[1, 0].set(False)
  result = majority.majority_scores(answers, valid=valid)
  np.testing.assert_array_equal(result[1], [0, 0, 1, 1, 0])


def test_no_answer_is_never_paid():
  """Empty, unparsed, separators only: id -1, whatever the others say."""
  nothing = jnp.full((1, 8), -1)
  for reward in (majority.majority_scores, cluster_share.cluster_share_scores):
    np.testing.assert_array_equal(reward(nothing), 0)
    mixed = jnp.array([[-1, -1, -1, -1, -1, 3, 3, 4]])
    assert (reward(mixed)[0, :5] == 0).all()
    assert reward(mixed)[0, 5] > 0


def test_the_weakness_is_one_constant_answer():
  """Collapsed on a wrong answer all get 1, and the entropy shows it."""
  truth, collapsed = jnp.array([1, 2, 3, 4]), jnp.full((4, 8), 9)
  for reward in (majority.majority_scores, cluster_share.cluster_share_scores):
    np.testing.assert_array_equal(reward(collapsed), 1)
  first, second = co_reward.co_reward_scores(collapsed, collapsed)
  assert (first == 1).all()
  assert (second == 1).all()
  assert not (collapsed == truth[:, None]).any()
  np.testing.assert_array_equal(votes_rewards.answer_entropy(collapsed), 0)


@pytest.mark.worked_example(
  "reward:majority", "function:majority.majority_scores"
)
def test_majority_of_two_groups():
  """7 has 2 of 4 votes without the missing samples, and 3 has 2 of 6."""
  answers = jnp.array([[2, 7, 7, -1, 2, 2], [3, -1, 8, 3, 5, 0]])
  exists = jnp.array([[True] * 4 + [False] * 2, [True] * 6])
  rollout = worked_example.rollout(
    np.zeros((2, 6)), sample_mask=exists, extras={"task/answer_ids": answers}
  )
  first, second = [0, 1, 1, 0, 0, 0], [1, 0, 0, 1, 0, 0]
  value = worked_example.reward("majority", rollout)
  np.testing.assert_array_equal(value, [first, second])
  # A share at the threshold is enough: 1/2, but not 1/3.
  value = worked_example.reward("majority", rollout, threshold=0.5)
  np.testing.assert_array_equal(value, [first, [0] * 6])
  value = majority.majority_scores(answers, valid=exists)
  np.testing.assert_array_equal(value, [first, second])
