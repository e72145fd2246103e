"""Tests of `rewards.agreement.co_reward`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rewards.agreement import co_reward, majority


def test_each_wording_is_labelled_by_the_other():
  original = jnp.array([[1, 1, 2], [1, 1, 2]])
  paraphrase = jnp.array([[2, 2, 1, 2], [-1, -1, -1, -1]])
  first, second = co_reward.co_reward_scores(original, paraphrase)
  np.testing.assert_array_equal(first, [[0, 0, 1], [0, 0, 0]])
  np.testing.assert_array_equal(second, [[0, 0, 1, 0], [0, 0, 0, 0]])
  swapped = co_reward.co_reward_scores(paraphrase, original)
  np.testing.assert_array_equal(swapped[0], second)
  np.testing.assert_array_equal(swapped[1], first)
  same = co_reward.co_reward_scores(original, original)
  for result in same:
    np.testing.assert_array_equal(result, majority.majority_scores(original))


@pytest.mark.worked_example(
  "reward:co_reward", "function:co_reward.co_reward_scores"
)
def test_labels_of_two_wordings_by_hand():
  """The labels are 1 of the original wording, and 2 of the other one."""
  original = jnp.array([[1, 1, 2, -1, 2, 2]])
  paraphrase = jnp.array([[2, 3, 2, 1, -1, 1]])
  exists = jnp.array([[True] * 4 + [False] * 2])
  other = jnp.array([[2, 3, 2, 1, 1, 1]])  # the last two do not exist
  scores = co_reward.co_reward_scores(original, other, exists, exists)
  np.testing.assert_array_equal(scores[0], [[0, 0, 1, 0, 0, 0]])
  np.testing.assert_array_equal(scores[1], [[0, 0, 0, 1, 0, 0]])
  rollout = worked_example.rollout(
    np.zeros(6),
    sample_mask=exists,
    extras={
      "task/answer_ids": original,
      "task/paraphrase_answer_ids": paraphrase,
    },
  )
  value = worked_example.reward("co_reward", rollout)
  np.testing.assert_array_equal(value, [[0, 0, 1, 0, 0, 0]])
