"""Tests of `rewards.steps.gated_accumulation`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rewards.steps import gated_accumulation

gated_accumulation = compiled.functions(gated_accumulation)


def test_levels_count_behind_those_above_them():
  rewards = jnp.array([[1.0, 2.0], [10.0, 20.0], [100.0, 200.0]])
  mask = jnp.ones(2, bool)
  thresholds = jnp.array([0.0, 0.5, 0.5])

  def run(*levels):
    return gated_accumulation.gated_accumulation(
      rewards, jnp.array(levels, jnp.float32), thresholds, mask
    )

  np.testing.assert_array_equal(run(0, 1, 1), [111, 222])
  np.testing.assert_array_equal(run(1, 1, 0), [100, 200])
  np.testing.assert_array_equal(run(1, 0, 1), [110, 220])
  np.testing.assert_array_equal(run(1, 1, jnp.nan), [100, 200])
  # A single level is the last one.
  alone = gated_accumulation.gated_accumulation(
    rewards[2:], jnp.zeros(1), thresholds[2:], mask
  )
  np.testing.assert_array_equal(alone, [100, 200])


def test_a_higher_threshold_never_adds():
  rng = np.random.default_rng(0)
  rewards = jnp.asarray(rng.uniform(size=(50, 3, 4)), jnp.float32)
  levels = jnp.asarray(rng.uniform(size=(50, 3)), jnp.float32)
  mask = jnp.ones((50, 4), bool)
  previous = jnp.inf
  for threshold in (-1.0, 0.3, 0.6, 2.0):
    total = gated_accumulation.gated_accumulation(
      rewards, levels, jnp.full(3, threshold), mask
    ).sum(-1)
    assert (total <= previous + 1e-6).all()
    previous = total
  np.testing.assert_allclose(previous, rewards[:, 2].sum(-1), rtol=1e-6)


@pytest.mark.worked_example("function:gated_accumulation.gated_accumulation")
def test_gates_of_three_levels():
  """A level counts if all later levels exceed their thresholds 2 and 3."""
  nan = jnp.nan
  rewards = jnp.array([[1, 2, nan], [10, 20, 5], [100, 200, 7]])
  levels = jnp.array([[0, 2.5, 3.5], [9, 2, 4], [9, 9, 3], [0, 4, 9]])
  mask = jnp.array([[True, True, False]] * 3 + [[True, False, False]])
  result = gated_accumulation.gated_accumulation(
    jnp.stack([rewards] * 4), levels, jnp.array([50, 2, 3]), mask
  )
  # Both exceed; level 1 is at its threshold; the last one is at its threshold.
  expected = [[111, 222, 0], [110, 220, 0], [100, 200, 0], [111, 0, 0]]
  np.testing.assert_array_equal(result, expected)
