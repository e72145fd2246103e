"""Tests of `rewards.reward_models.trusted`."""

import jax.numpy as jnp
import numpy as np

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
