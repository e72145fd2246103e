"""Tests of `rewards.confidence.answer_confidence`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.confidence import answer_confidence

answer_confidence = compiled.functions(answer_confidence)


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


@pytest.mark.worked_example(
  "reward:answer_confidence",
  "function:answer_confidence.answer_confidence_scores",
)
def test_probability_of_the_last_step():
  """Last steps of 2, 2 and 1 tokens; the third sample has no answer."""
  nan = np.nan
  p = [[[0.9, 0.5, 0.8], [0.3, 0.7, nan], [0.2, 0.4, nan], [0.1, 0.6, nan]]]
  rollout = worked_example.rollout(
    np.zeros(4),
    steps=[[1, 2], [2], [1, 1], [1, 1]],
    step_scores=[[0, 0], [0], [0, 0], [0, 0]],
    sample_mask=jnp.array([[True, True, True, False]]),
    extras={
      "old/log_probs": np.log(p),
      "task/answer_ids": np.array([[0, 3, -1, 5]]),
    },
  )
  # Means of probabilities: (0.5 + 0.8) / 2 and (0.3 + 0.7) / 2.
  value = worked_example.reward("answer_confidence", rollout)
  np.testing.assert_allclose(value, [[0.65, 0.5, 0, 0]], rtol=1e-6)
  value = answer_confidence.answer_confidence_scores(
    jnp.log(jnp.array(p[0])), jnp.array([[False, True, True]] * 4)
  )
  np.testing.assert_allclose(value[0], 0.65, rtol=1e-6)


@pytest.mark.worked_example("function:answer_confidence.confidence_gaps")
def test_gaps_of_two_right_and_two_wrong_samples():
  """A sample with an unknown verdict and a missing one are in no pair."""
  gaps, pairs = answer_confidence.confidence_gaps(
    jnp.array([0.2, 0.9, 0.5, 0.6, 0.1, jnp.nan]),
    jnp.array([0, 1, 1, 0, -1, 0]),
    jnp.arange(6) < 5,
  )
  # Rows are right samples and columns wrong ones: c_right - c_wrong.
  expected = np.zeros((6, 6))
  expected[1, 0], expected[1, 3] = 0.7, 0.3
  expected[2, 0], expected[2, 3] = 0.3, -0.1
  np.testing.assert_allclose(gaps, expected, atol=1e-6)
  np.testing.assert_array_equal(pairs, expected != 0)
