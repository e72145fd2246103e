"""Tests of `rewards.controls.wrong_vote`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rewards.agreement import votes
from rewards.controls import wrong_vote


def test_a_wrong_vote_is_the_label_of_those_who_err_alike():
  ids = jnp.array([[0, 5, 5, 3], [2, 2, 2, 2], [4, -1, -1, 1]])
  correct = jnp.array([[1, 0, 0, 0], [1, 1, 1, 1], [-1, 0, 0, 0]])
  labels = wrong_vote.most_common_wrong_answer(ids, correct)
  np.testing.assert_array_equal(labels, [5, -1, 1])
  result = votes.agreement(ids, labels)
  np.testing.assert_array_equal(
    result, [[0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
  )
  assert not (result * (correct == 1)).any()  # a right answer earns nothing


@pytest.mark.worked_example(
  "reward:wrong_vote", "function:wrong_vote.most_common_wrong_answer"
)
def test_wrong_votes_by_hand():
  """5 has two wrong votes; 4 has more, but of missing or right samples."""
  ids = jnp.array([[5, 4, 5, 4, 4, 7, 7, 7], [1, 1, 2, 0, 1, 1, 1, -1]])
  correct = jnp.array([[0, 1, 0, 0, 0, -1, -1, -1], [1, 1, 1, 0, 1, 1, 1, 0]])
  exists = jnp.ones((2, 8), bool).at[0, 3:5].set(False)
  label = wrong_vote.most_common_wrong_answer(ids, correct, exists)
  np.testing.assert_array_equal(label, [5, 0])
  rollout = worked_example.rollout(
    np.zeros((2, 8)),
    correct=correct,
    sample_mask=exists,
    extras={"task/answer_ids": ids},
  )
  value = worked_example.reward("wrong_vote", rollout)
  expected = [[1, 0, 1, 0, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0, 0, 0]]
  np.testing.assert_array_equal(value, expected)
