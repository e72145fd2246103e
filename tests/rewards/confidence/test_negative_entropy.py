"""Tests of `rewards.confidence.negative_entropy`."""

import jax.numpy as jnp
import numpy as np

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
