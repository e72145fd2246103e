"""Tests of `rewards.likelihood.group_log_mean_advantages`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, reference_views, worked_example

from rewards.likelihood import group_log_mean_advantages, reference_probability

group_log_mean_advantages = compiled.functions(group_log_mean_advantages)
reference_probability = compiled.functions(reference_probability)

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
  slope = jax.grad(
    lambda x: group_log_mean_advantages.log_mean_advantages(x, MASK[:1]).sum()
  )(LOGS[:1])
  np.testing.assert_array_equal(slope, 0)


@pytest.mark.worked_example(
  "reward:group_log_mean_advantages",
  "function:group_log_mean_advantages.group_log_mean",
  "function:group_log_mean_advantages.log_mean_advantages",
)
def test_probabilities_of_three_of_four_thoughts():
  """p = 0.09, 0.2 and 0.3: the mean is 0.59 / 3."""
  rollout = reference_views.rollout()
  log_probs = jnp.log(jnp.asarray(reference_views.PROBABILITIES))
  mask, exists = rollout.views["reference"].mask, rollout.sample_mask
  value = group_log_mean_advantages.group_log_mean(log_probs, mask, exists)
  np.testing.assert_allclose(value, [np.log(0.59 / 3)], rtol=1e-5)
  # log mean_j p_j - log mean_{j != i} p_j
  others = np.array([0.5, 0.39, 0.29]) / 2
  expected = [[*np.log(0.59 / 3 / others), 0]]
  value = worked_example.reward("group_log_mean_advantages", rollout)
  np.testing.assert_allclose(value, expected, rtol=1e-4)
  value = group_log_mean_advantages.log_mean_advantages(log_probs, mask, exists)
  np.testing.assert_allclose(value, expected, rtol=1e-4)
  # The only sample of a group has no advantage, and no samples the log-mean 0.
  one, none = jnp.arange(4) == 1, jnp.zeros(4, bool)
  value = group_log_mean_advantages.log_mean_advantages(
    log_probs[0], mask[0], one
  )
  np.testing.assert_array_equal(value, 0)
  value = group_log_mean_advantages.group_log_mean(log_probs[0], mask[0], one)
  np.testing.assert_allclose(value, np.log(0.2), rtol=1e-5)
  assert (
    group_log_mean_advantages.group_log_mean(log_probs[0], mask[0], none) == 0
  )
