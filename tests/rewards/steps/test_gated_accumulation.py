"""Tests of `rewards.steps.gated_accumulation`."""

import jax.numpy as jnp
import numpy as np

from rewards.steps import (
  gated_accumulation,
)


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
