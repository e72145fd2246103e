"""Tests of `rewards.steps.normalized_steps`."""

import jax.numpy as jnp
import numpy as np

from rewards.steps import normalized_steps
from rl import advantages


def test_steps_of_a_group_are_normalised_together():
  rng = np.random.default_rng(3)
  rewards = jnp.asarray(rng.normal(size=(4, 5)), jnp.float32)
  mask = jnp.asarray(rng.random((4, 5)) < 0.7)
  result = normalized_steps.normalize_in_group(rewards, mask)
  every = np.asarray(rewards)[np.asarray(mask)]
  expected = (every - every.mean()) / every.std()
  np.testing.assert_allclose(result[mask], expected, rtol=1e-4, atol=1e-5)
  flat = normalized_steps.normalize_in_group(jnp.full((4, 5), 0.1), mask)
  np.testing.assert_array_equal(flat, 0)
  # One step per sample is the group's z-score.
  one = normalized_steps.normalize_in_group(
    rewards[:, :1], jnp.ones((4, 1), bool)
  )
  np.testing.assert_allclose(
    one[:, 0], advantages.group_normalize(rewards[:, 0], ddof=0), atol=1e-5
  )
