"""Tests of `rewards.likelihood.debiased_probability`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, reference_views, worked_example

from rewards.likelihood import debiased_probability, reference_probability

debiased_probability = compiled.functions(debiased_probability)

LOGS = jnp.log(jnp.array([[0.9, 0.1], [0.5, 0.5]]))
MASK = jnp.ones((2, 2), bool)


def test_rlpr_takes_off_what_needs_no_thought():
  result = debiased_probability.debiased_probability_scores(
    LOGS, MASK, 0.3, 1.0
  )
  np.testing.assert_allclose(result, 0.9 * 0.2 + 0.1, rtol=1e-5)
  worse = debiased_probability.debiased_probability_scores(LOGS, MASK, 0.8, 1.0)
  np.testing.assert_allclose(worse, 0.1)  # never below the format's share
  reference = debiased_probability.debiased_probability_scores(
    LOGS, MASK, 0.0, 0.0, 0.0
  )
  np.testing.assert_allclose(
    reference, reference_probability.mean_reference_probability(LOGS, MASK)
  )


@pytest.mark.worked_example(
  "reward:debiased_probability",
  "function:debiased_probability.debiased_probability_scores",
)
def test_gains_on_the_probability_without_a_thought():
  """Means 0.5, 0.6 and 0.3 after thoughts, and 0.4 without one."""
  rollout = reference_views.rollout(
    finished=jnp.array([[True, False, True, True]])
  )
  # 0.9 clip(mean p - r0, 0, 1) + 0.1 1[finished]
  value = worked_example.reward("debiased_probability", rollout)
  np.testing.assert_allclose(value[:, :3], [[0.19, 0.18, 0.1]], rtol=1e-5)
  value = worked_example.reward(
    "debiased_probability", rollout, format_weight=0.25
  )
  np.testing.assert_allclose(value[:, :3], [[0.325, 0.15, 0.25]], rtol=1e-5)
  # Without r0 and format score; an empty reference gains nothing.
  log_probs = jnp.log(jnp.asarray(reference_views.PROBABILITIES))
  mask = rollout.views["reference"].mask
  value = debiased_probability.debiased_probability_scores(log_probs, mask)
  np.testing.assert_allclose(value[:, :3], [[0.45, 0.54, 0.27]], rtol=1e-5)
  value = debiased_probability.debiased_probability_scores(
    log_probs, jnp.zeros_like(mask), -0.5, 0.7
  )
  np.testing.assert_allclose(value, 0.07, rtol=1e-5)
  # A gain of 0.5 + 0.75 counts as 1.
  value = debiased_probability.debiased_probability_scores(
    log_probs, mask, -0.75
  )
  np.testing.assert_allclose(value[0, 0], 0.9, rtol=1e-5)
