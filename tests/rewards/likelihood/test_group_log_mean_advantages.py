"""Tests of `rewards.likelihood.group_log_mean_advantages`."""

import jax.numpy as jnp
import numpy as np

from rewards.likelihood import group_log_mean_advantages, reference_probability

LOGS = jnp.log(jnp.array([[0.9, 0.1], [0.5, 0.5]]))
MASK = jnp.ones((2, 2), bool)


def test_the_log_of_the_mean_is_at_least_the_mean_of_the_logs():
  value = group_log_mean_advantages.group_log_mean(LOGS, MASK)
  np.testing.assert_allclose(value, -1.771957, atol=1e-5)
  rng = np.random.default_rng(0)
  logs = jnp.asarray(rng.normal(-3, 2, (50, 6, 4)), jnp.float32)
  mask = jnp.ones(logs.shape, bool)
  mean = reference_probability.reference_log_probability(logs, mask).mean(-1)
  assert (
    group_log_mean_advantages.group_log_mean(logs, mask) >= mean - 1e-5
  ).all()


def test_a_group_of_one_has_no_others():
  gained = group_log_mean_advantages.log_mean_advantages(LOGS[:1], MASK[:1])
  np.testing.assert_array_equal(gained, 0)
