"""Tests of `rewards.confidence.self_certainty`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.confidence import self_certainty

self_certainty = compiled.functions(self_certainty)


@pytest.mark.worked_example("function:self_certainty.divergence_from_uniform")
def test_self_certainty_of_three_words():
  logits = jnp.log(jnp.array([[0.7, 0.2, 0.1], [1 / 3, 1 / 3, 1 / 3]])) + 5
  result = self_certainty.divergence_from_uniform(logits)
  np.testing.assert_allclose(result, [0.324287, 0], atol=1e-5)
  mean = self_certainty.self_certainty_scores(result, jnp.array([True, True]))
  np.testing.assert_allclose(mean, 0.324287 / 2, atol=1e-5)


@pytest.mark.worked_example("function:self_certainty.borda_votes")
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


@pytest.mark.worked_example(
  "reward:self_certainty", "function:self_certainty.self_certainty_scores"
)
def test_mean_divergences_by_hand():
  """Means over 2 and 3 tokens; the padding does not count."""
  divergences = np.array([[[0.2, 0.7, np.nan], [0.1, 0.3, 0.8]]])
  rollout = worked_example.rollout(
    np.zeros(2),
    [2, 3],
    extras={"old/divergence_from_uniform": divergences},
  )
  value = worked_example.reward("self_certainty", rollout)
  np.testing.assert_allclose(value, [[0.45, 0.4]], rtol=1e-6)
  value = self_certainty.self_certainty_scores(divergences, rollout.tokens.mask)
  np.testing.assert_allclose(value, [[0.45, 0.4]], rtol=1e-6)


@pytest.mark.worked_example("function:self_certainty.borda_votes")
def test_borda_votes_with_the_power_of_the_paper():
  """Three of six vote, with the square roots of 3/3, 2/3 and 1/3."""
  sure = jnp.array([[0.9, 0.2, 0.5, 7.0, jnp.nan, -jnp.inf]] * 2)
  answers = jnp.array([[0, 0, 5, -1, 5, 5]] * 2)
  votes = self_certainty.borda_votes(
    sure, answers, valid=jnp.array([[1, 1, 1, 1, 0, 1]] * 2) > 0
  )
  # ((n - rank) / n)^0.5: ranks 0 and 2 answer 0, and rank 1 answers 5. The
  # last sample does not vote, but its answer has votes.
  zero, five = 1 + (1 / 3) ** 0.5, (2 / 3) ** 0.5
  expected = [[zero, zero, five, 0, 0, five]] * 2
  np.testing.assert_allclose(votes, expected, rtol=1e-6)


def test_mean_log_probabilities_as_confidence():
  """Ranks 2, 0 and 1 below 0, where samples without a vote have no rank."""
  sure = jnp.array([-3.0, -1.0, -0.5, -2.0, jnp.nan])
  answers = jnp.array([0, 1, -1, 2, 2])
  votes = self_certainty.borda_votes(sure, answers, 1.0, jnp.arange(5) < 4)
  np.testing.assert_allclose(votes, [1 / 3, 1, 0, 2 / 3, 0], rtol=1e-6)
  # The vote of a single sample.
  votes = self_certainty.borda_votes(sure, answers, valid=jnp.arange(5) < 1)
  np.testing.assert_array_equal(votes, [1, 0, 0, 0, 0])
  # Of equally sure samples the first has the highest rank.
  n = 100
  votes = self_certainty.borda_votes(jnp.full(n, 0.4), jnp.arange(n), 1.0)
  np.testing.assert_allclose(votes, 1 - np.arange(n) / n, rtol=1e-6)
