"""Tests of `rewards.confidence.answer_confidence`."""

import jax.numpy as jnp
import numpy as np

from rewards.confidence import answer_confidence


def test_confidence_of_an_answer_is_its_probability():
  logs = jnp.log(jnp.array([[0.5, 0.25, 0.9], [1.0, 1.0, 1.0]]))
  mask = jnp.array([[False, True, False], [False, True, True]])
  result = answer_confidence.answer_confidence_scores(logs, mask)
  np.testing.assert_allclose(result, [0.25, 1.0], rtol=1e-6)
  nothing = answer_confidence.answer_confidence_scores(
    logs, jnp.zeros((2, 3), bool)
  )
  np.testing.assert_array_equal(nothing, 0)
  # A mean of probabilities, not a geometric one.
  both = answer_confidence.answer_confidence_scores(
    logs[:1], jnp.ones((1, 3), bool)
  )
  np.testing.assert_allclose(both, (0.5 + 0.25 + 0.9) / 3, rtol=1e-6)


def test_pairs_of_right_and_wrong():
  gaps, pairs = answer_confidence.confidence_gaps(
    jnp.array([0.9, 0.5, 0.7, 0.1]), jnp.array([1, 0, 0, -1])
  )
  assert pairs.sum() == 2
  np.testing.assert_allclose(gaps[0], [0, 0.4, 0.2, 0], atol=1e-6)
  assert (gaps[1:] == 0).all()
