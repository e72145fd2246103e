"""Tests of `rewards.reward_models.trusted`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rewards.reward_models import stratified, trusted


def test_trust_s_numbers():
  outcomes = jnp.array([1.0, 1.0, 0.0, 0.0])
  thoughts = jnp.array([0.3, 0.5, 0.6, 0.8])
  np.testing.assert_allclose(
    trusted.trust(outcomes, thoughts), 0.740818, rtol=1e-5
  )
  for step, weight in ((0, 0.222245), (500, 0.081760)):
    result = trusted.trusted_scores(outcomes, thoughts, step)
    np.testing.assert_allclose(
      result, outcomes + weight * thoughts, rtol=1e-5, atol=1e-6
    )
  late = trusted.trusted_scores(outcomes, thoughts, 10**6)
  np.testing.assert_array_equal(late, outcomes)
  agreeing = trusted.trusted_scores(outcomes, thoughts[::-1], 0)
  np.testing.assert_allclose(agreeing, outcomes + 0.3 * thoughts[::-1])


def test_no_thought_makes_a_wrong_answer_beat_a_right_one():
  """0.3 of a thought is less than an outcome; the audit's keyword-stuffer."""
  outcomes, thoughts = jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0])
  right, wrong = trusted.trusted_scores(outcomes, thoughts, 0)
  assert right > wrong
  right, wrong = stratified.stratified_scores(outcomes, 1e6 * thoughts)
  assert right > wrong


@pytest.mark.worked_example(
  "reward:trusted", "function:trusted.trust", "function:trusted.trusted_scores"
)
@pytest.mark.parametrize(("step", "decay"), [(0, 1), (250, np.exp(-0.5))])
def test_trust_and_annealing(step, decay):
  """Groups with trust e^{-0.3}, 1, and 0 (all answers are right).

  The thoughts of the last group are not read.
  """
  thoughts = [[0.3, 0.5, 0.8, 0.6], [0.9, 0.2, 0.4, 0.1], [np.nan] * 4]
  exists = np.ones((3, 4), bool)
  exists[1, 3] = False
  thoughts = np.where(exists, thoughts, np.nan)
  rollout = worked_example.rollout(
    np.full((3, 4), 9),
    correct=[[1, 1, 0, -1], [1, 0, 0, 1], [1, 1, 1, 1]],
    components={"thoughts": thoughts},
    sample_mask=jnp.asarray(exists),
    step=jnp.int32(step),
  )
  # Means .4 of right and .7 of wrong answers; then .9 of right, .3 of wrong.
  weights = 0.3 * decay * np.exp(0.4 - 0.7), 0.3 * decay
  expected = [
    [1 + weights[0] * 0.3, 1 + weights[0] * 0.5, weights[0] * 0.8],
    [1 + weights[1] * 0.9, weights[1] * 0.2, weights[1] * 0.4, 0],
    [1, 1, 1, 1],
  ]
  expected[0].append(weights[0] * 0.6)
  result = worked_example.reward("trusted", rollout, thoughts="thoughts")
  np.testing.assert_allclose(result, expected, rtol=1e-5)


@pytest.mark.worked_example("function:trusted.trusted_scores")
def test_weight_and_horizon():
  """At step 3 of a horizon of 4, with a weight of 2; 1/2 is not right."""
  outcomes, thoughts = jnp.array([0.5, 0.75]), jnp.array([0.5, 0.25])
  weight = np.exp(0.25 - 0.5) * 2 * np.exp(-3 / 4)
  np.testing.assert_allclose(
    trusted.trusted_scores(outcomes, thoughts, 3, 2.0, 4.0),
    [0.5 + weight * 0.5, 0.75 + weight * 0.25],
    rtol=1e-6,
  )
