"""Tests of `rewards.likelihood.debiased_probability`."""

import jax.numpy as jnp
import numpy as np

from rewards.likelihood import (
  debiased_probability,
  reference_probability,
)

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


def test_groups_of_little_spread_are_left_out():
  rewards = jnp.array([[0.0, 1.0], [0.5, 0.6], [0.5, 0.5]])
  remaining, mean = debiased_probability.spread_enough(rewards, 1.0, 0.5)
  np.testing.assert_array_equal(remaining, [True, False, False])
  spreads = np.std(rewards, axis=-1, ddof=1)
  np.testing.assert_allclose(mean, spreads.mean(), rtol=1e-6)
  assert debiased_probability.spread_enough(rewards, 1.0, 0.0)[0].all()
