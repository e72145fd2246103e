"""Tests of `rewards.reward_models.concise`."""

import jax.numpy as jnp
import numpy as np

from rewards.reward_models import concise


def test_conciseness_is_bounded_and_needs_a_right_answer():
  c = jnp.linspace(0.1, 1, 10)
  right = concise.concise_scores(jnp.ones(10), c, 0.5, 0.3, alpha=0.4)
  np.testing.assert_allclose(right, 1 + 0.4 * c * 0.8, rtol=1e-6)
  assert right.max() <= 1 + 0.4 * 0.8 + 1e-6
  np.testing.assert_array_equal(concise.concise_scores(jnp.zeros(10), c), 0)
  reference = concise.concise_scores(
    jnp.array([1, 0]), jnp.array([0.1, 1.0]), alpha=0.0
  )
  np.testing.assert_array_equal(reference, [1, 0])
