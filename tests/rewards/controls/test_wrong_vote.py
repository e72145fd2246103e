"""Tests of `rewards.controls.wrong_vote`."""

import jax.numpy as jnp
import numpy as np

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
