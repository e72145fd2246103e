"""Tests of `rewards.likelihood.group_log_mean_advantages`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, reference_views, worked_example

from rewards.likelihood import group_log_mean_advantages

group_log_mean_advantages = compiled.functions(group_log_mean_advantages)

LOGS = jnp.log(jnp.array([[0.9, 0.1], [0.5, 0.5]]))
MASK = jnp.ones((2, 2), bool)


def test_a_group_of_one_has_no_others():
  gained = group_log_mean_advantages.log_mean_advantages(LOGS[:1], MASK[:1])
  np.testing.assert_array_equal(gained, 0)
  slope = jax.grad(
    lambda x: group_log_mean_advantages.log_mean_advantages(x, MASK[:1]).sum()
  )(LOGS[:1])
  np.testing.assert_array_equal(slope, 0)


@pytest.mark.worked_example(
  "reward:group_log_mean_advantages",
  "function:group_log_mean_advantages.log_mean_advantages",
)
def test_probabilities_of_three_of_four_thoughts():
  """p = 0.09, 0.2 and 0.3: the mean is 0.59 / 3."""
  rollout = reference_views.rollout()
  log_probs = jnp.log(jnp.asarray(reference_views.PROBABILITIES))
  mask, exists = rollout.views["reference"].mask, rollout.sample_mask
  # log mean_j p_j - log mean_{j != i} p_j
  others = np.array([0.5, 0.39, 0.29]) / 2
  expected = [[*np.log(0.59 / 3 / others), 0]]
  value = worked_example.reward("group_log_mean_advantages", rollout)
  np.testing.assert_allclose(value, expected, rtol=1e-4)
  value = group_log_mean_advantages.log_mean_advantages(log_probs, mask, exists)
  np.testing.assert_allclose(value, expected, rtol=1e-4)
  # The only sample of a group has no advantage.
  one = jnp.arange(4) == 1
  value = group_log_mean_advantages.log_mean_advantages(
    log_probs[0], mask[0], one
  )
  np.testing.assert_array_equal(value, 0)
