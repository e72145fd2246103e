"""Tests of `rewards.reward_models.principles`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewards.reward_models import principles


def test_log_odds_are_those_of_yes_against_no():
  logits = jnp.asarray(np.random.default_rng(1).normal(size=(4, 3, 6)))
  odds = principles.log_odds(logits, 2, 5)
  p = jax.nn.softmax(logits, -1)
  np.testing.assert_allclose(
    jax.nn.sigmoid(odds), p[..., 2] / (p[..., 2] + p[..., 5]), rtol=1e-5
  )
  np.testing.assert_array_equal(principles.log_odds(jnp.zeros(6), 2, 5), 0)
  np.testing.assert_allclose(odds, -principles.log_odds(logits, 5, 2))
  requested = jnp.array([True, False, True])
  requested = jnp.broadcast_to(requested, odds.shape)
  result = principles.mean_log_odds(logits, 2, 5, requested)
  np.testing.assert_allclose(result, odds[:, [0, 2]].mean(-1), rtol=1e-5)
  nobody = principles.mean_log_odds(logits, 2, 5, jnp.zeros_like(requested))
  np.testing.assert_array_equal(nobody, 0)


def test_the_weakness_of_principles_is_the_one_that_is_easy_to_please():
  """One Yes beyond doubt outweighs two that are missed."""
  modest = jnp.array([[2.0, 0.0], [2.0, 0.0], [2.0, 0.0]])
  flatterer = jnp.array([[12.0, 0.0], [0.0, 2.0], [0.0, 2.0]])
  scores = [principles.mean_log_odds(x, 0, 1) for x in (modest, flatterer)]
  assert scores[1] > scores[0] > 0


@pytest.mark.worked_example(
  "function:principles.log_odds", "function:principles.mean_log_odds"
)
def test_log_odds_of_two_principles():
  """log p(Yes) - log p(No), with Yes the token 2 and No the token 0."""
  p = np.array([[0.125, 0.375, 0.5], [0.5, 0.25, 0.25], [0.3, 0.1, 0.6]])
  logits = jnp.log(jnp.asarray(p))
  expected = np.log([4, 0.5, 2])
  np.testing.assert_allclose(
    principles.log_odds(logits, 2, 0), expected, rtol=1e-5
  )
  # The mean of the first two: log(4 * 0.5) / 2.
  mask = jnp.array([True, True, False])
  np.testing.assert_allclose(
    principles.mean_log_odds(logits, 2, 0, mask), np.log(2) / 2, rtol=1e-5
  )
  np.testing.assert_allclose(
    principles.mean_log_odds(logits, 2, 0), np.log(4) / 3, rtol=1e-5
  )
