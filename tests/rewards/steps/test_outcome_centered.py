"""Tests of `rewards.steps.outcome_centered`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.steps import outcome_centered

outcome_centered = compiled.functions(outcome_centered)


def test_turns_are_paid_against_the_outcome():
  scores = jnp.array([0.5, 0.8, 0.9])
  mask = jnp.ones(3, bool)
  right = outcome_centered.outcome_centered_rewards(scores, mask, 1)
  np.testing.assert_allclose(right, [0.5, 0.8, 1], rtol=1e-6)
  wrong = outcome_centered.outcome_centered_rewards(scores, mask, 0)
  np.testing.assert_allclose(wrong, [-0.5, -0.2, 0], rtol=1e-6)
  unread = outcome_centered.outcome_centered_rewards(
    scores, mask, 0, judged=jnp.zeros(3, bool)
  )
  np.testing.assert_array_equal(unread, [-1, -1, 0])
  alone = outcome_centered.outcome_centered_rewards(
    scores, jnp.arange(3) < 1, 1
  )
  np.testing.assert_array_equal(alone, [1, 0, 0])
  # A balanced judge of a balanced task pays nothing on the mean.
  p = jnp.linspace(0, 1, 11)[:, None] * jnp.ones(2)
  both = [
    outcome_centered.outcome_centered_rewards(p, jnp.ones(2, bool), o)
    for o in (0, 1)
  ]
  np.testing.assert_allclose(jnp.stack(both)[..., 0].mean(), 0, atol=1e-6)


@pytest.mark.worked_example(
  "reward:outcome_centered",
  "function:outcome_centered.outcome_centered_rewards",
)
def test_steps_of_right_wrong_and_unknown_answers():
  """Step scores s are p = (s + 1) / 2; the paper has beta = 1."""
  rollout = worked_example.rollout(
    [5, 6, 7, 8],
    correct=[1, 0, -1, 1],
    steps=[[1, 1], [1, 1, 1], [1], [1, 1, 1]],
    step_scores=[[0.5, -0.2], [-0.5, 0.8, 0.2], [0.4], [0.1, 0.2, 0.3]],
    sample_mask=jnp.array([[True, True, True, False]]),
  )
  # p_k + o - 1, and o for the last step.
  expected = [[0.75, 1, 0], [0.25 - 1, 0.9 - 1, 0], [0, 0, 0], [0, 0, 0]]
  result = worked_example.reward("outcome_centered", rollout)
  np.testing.assert_allclose(result[0], expected, atol=1e-6)
  result = worked_example.reward("outcome_centered", rollout, beta=0.25)
  expected = [[1.5, 1, 0], [0, 0.65, 0], [0, 0, 0], [0, 0, 0]]
  np.testing.assert_allclose(result[0], expected, atol=1e-6)


@pytest.mark.worked_example(
  "function:outcome_centered.outcome_centered_rewards"
)
def test_unparsed_replies_score_0_before_the_shift():
  """The reply for step 1 could not be parsed, so its p is 0."""
  result = outcome_centered.outcome_centered_rewards(
    jnp.array([[0.75, 0.5, 0.25, 0.125, jnp.nan]]),
    jnp.arange(5)[None] < 4,
    jnp.array([0.5]),
    0.25,
    jnp.array([[True, False, True, True, True]]),
  )
  np.testing.assert_array_equal(result, [[1, 0.25, 0.5, 0.5, 0]])
