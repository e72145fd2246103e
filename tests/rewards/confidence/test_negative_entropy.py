"""Tests of `rewards.confidence.negative_entropy`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rewards.confidence import negative_entropy


def test_entropy_s_ends():
  mask = jnp.ones((2, 4), bool)
  entropies = jnp.stack([jnp.zeros(4), jnp.full(4, jnp.log(32.0))])
  result = negative_entropy.negative_entropy_scores(entropies, mask)
  np.testing.assert_allclose(result, [0, -np.log(32)], rtol=1e-6)
  answered = jnp.array([False, True])
  result = negative_entropy.negative_entropy_scores(entropies, mask, answered)
  np.testing.assert_allclose(result, [-7, -np.log(32)], rtol=1e-6)
  empty = negative_entropy.negative_entropy_scores(
    entropies, jnp.zeros((2, 4), bool)
  )
  np.testing.assert_array_equal(empty, -7)


def test_the_weakness_of_confidence_is_degenerate_text():
  """Certain repetition beats a correct answer: there is no truth in it."""
  loop = jnp.full((1, 50), 0.001)
  careful = jnp.full((1, 50), 0.6)
  mask = jnp.ones((1, 50), bool)
  reward = negative_entropy.negative_entropy_scores
  assert reward(loop, mask) > reward(careful, mask)


@pytest.mark.worked_example(
  "reward:negative_entropy",
  "function:negative_entropy.negative_entropy_scores",
)
def test_mean_entropies_by_hand():
  """Means 0.4 and 2, one sample without an answer, and one without tokens."""
  nan = np.nan
  entropies = np.array([[[0.2, 0.6, nan], [1, 2, 3], [1, nan, nan], [nan] * 3]])
  rollout = worked_example.rollout(
    np.zeros(4),
    [2, 3, 1, 0],
    extras={
      "old/entropy": entropies,
      "task/answer_ids": np.array([[0, 4, -1, 2]]),
    },
  )
  value = worked_example.reward("negative_entropy", rollout)
  np.testing.assert_allclose(value, [[-0.4, -2, -7, -7]], rtol=1e-6)
  value = worked_example.reward("negative_entropy", rollout, unanswered=-3.0)
  np.testing.assert_allclose(value, [[-0.4, -2, -3, -3]], rtol=1e-6)
  value = negative_entropy.negative_entropy_scores(
    entropies, rollout.tokens.mask
  )
  np.testing.assert_allclose(value, [[-0.4, -2, -1, -7]], rtol=1e-6)
