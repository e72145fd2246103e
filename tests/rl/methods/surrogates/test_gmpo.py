"""Worked example of GMPO."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rl import methods
from rl.methods.surrogates import gmpo


@pytest.mark.worked_example("method:gmpo")
def test_geometric_mean_of_clipped_ratios():
  """Log-ratios clipped at 0.4 where A > 0 and at -0.4 where A < 0."""
  exists = np.array([[True, True, True, True, False]])
  rollout = worked_example.rollout(
    [1, 0, 0, 0, 9], [3, 3, 2, 1, 3], sample_mask=exists
  )
  log_ratios = np.array(
    [[0.7, -0.6, 0.3], [0.7, -0.6, 0.3], [-0.1, -0.9, 0], [0.5, 0, 0], [0] * 3]
  )
  old = np.full((1, 5, 3), np.log(0.2))
  loss, slopes = worked_example.loss(
    methods.get("gmpo"), rollout, old + log_ratios, old
  )
  # A exp(mean_t l_t), with l = 0.4, -0.6, 0.3 where A = 3/2, and so on.
  means = [0.1 / 3, (0.7 - 0.4 + 0.3) / 3, (-0.1 - 0.4) / 2, 0.5]
  values = [1.5, -0.5, -0.5, -0.5] * np.exp(means)
  np.testing.assert_allclose(loss, -np.mean(values), rtol=1e-5)
  moves = np.array([[0, 1, 1], [1, 0, 1], [1, 0, 0], [1, 0, 0]])
  shares = moves / np.array([[3], [3], [2], [1]])
  np.testing.assert_allclose(
    slopes[0, :4], -values[:, None] * shares / 4, atol=1e-6
  )
  assert not slopes[0, 4].any()


def test_tokens_of_unequal_advantages():
  """Log-ratios are clipped from above where A > 0, and from below elsewhere."""
  rollout = worked_example.rollout([0], [4])
  log_ratio = jnp.array([[[0.7, -0.6, 0.7, -0.6]]])
  advantages = jnp.array([[[0.5, 0.5, 0, 0]]])
  actual, metrics = gmpo.geometric_mean(0.4).fn(
    log_ratio, advantages, None, rollout
  )
  expected = 0.25 * np.exp((0.4 - 0.6 + 0.7 - 0.4) / 4)
  np.testing.assert_allclose(actual, [[expected]], rtol=1e-6)
  # Tokens with A = 0 are not counted.
  np.testing.assert_array_equal(
    metrics["policy/clip_frac_high"], [[[True, False, False, False]]]
  )
  assert not metrics["policy/clip_frac_low"].any()


def test_the_shares_of_clipped_tokens():
  """Log-ratios at the bound 0.5, and beyond it, for both signs of A."""
  log_ratio = jnp.array([[[0.5, 0.75, -0.5, -0.75]] * 2])
  advantages = jnp.array([[[1.0] * 4, [-1] * 4]])
  rollout = worked_example.rollout([0, 0], [4, 4])
  _, metrics = gmpo.geometric_mean(0.5).fn(log_ratio, advantages, None, rollout)
  high = [[[False, True, False, False], [False] * 4]]
  low = [[[False] * 4, [False, False, False, True]]]
  np.testing.assert_array_equal(metrics["policy/clip_frac_high"], high)
  np.testing.assert_array_equal(metrics["policy/clip_frac_low"], low)
