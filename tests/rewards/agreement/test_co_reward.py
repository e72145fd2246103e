"""Tests of `rewards.agreement.co_reward`."""

import jax.numpy as jnp
import numpy as np

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
