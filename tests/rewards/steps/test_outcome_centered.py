"""Tests of `rewards.steps.outcome_centered`."""

import jax.numpy as jnp
import numpy as np

from rewards.steps import outcome_centered


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
