"""Tests of `rewards.confidence.self_certainty`."""

import jax.numpy as jnp
import numpy as np

from rewards.confidence import self_certainty


def test_self_certainty_of_three_words():
  logits = jnp.log(jnp.array([[0.7, 0.2, 0.1], [1 / 3, 1 / 3, 1 / 3]])) + 5
  result = self_certainty.divergence_from_uniform(logits)
  np.testing.assert_allclose(result, [0.324287, 0], atol=1e-5)
  mean = self_certainty.self_certainty_scores(result, jnp.array([True, True]))
  np.testing.assert_allclose(mean, 0.324287 / 2, atol=1e-5)


def test_borda_is_a_majority_at_0_and_the_surest_at_infinity():
  answers = jnp.array([3, 3, 5, 5, 5, -1, 8])
  sure = jnp.array([0.9, 0.8, 0.1, 0.2, 0.3, 9.0, 0.95])
  majority = self_certainty.borda_votes(sure, answers, 0.0)
  np.testing.assert_allclose(majority, [2, 2, 3, 3, 3, 0, 1])
  surest = self_certainty.borda_votes(sure, answers, jnp.inf)
  assert jnp.argmax(surest) == 6
  # Ranks 5, 4, 1, 2, 3, 6 of 6 (6 the surest), answers 3: (5 + 4) / 6.
  linear = self_certainty.borda_votes(sure, answers, 1.0)
  np.testing.assert_allclose(
    linear, np.array([9, 9, 6, 6, 6, 0, 6]) / 6, rtol=1e-6
  )
