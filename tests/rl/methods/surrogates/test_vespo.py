"""Worked example of VESPO."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rl import methods, types
from rl.methods.surrogates import vespo


@pytest.mark.worked_example("method:vespo")
def test_weights_of_whole_samples():
  """rho^2 exp(3 (1 - rho)) where A >= 0, else rho^3 exp(2 (1 - rho))."""
  rollout = worked_example.rollout(
    [1, 0.5, 0.5, 0, 0, 9],
    [2, 1, 3, 2, 1, 2],
    sample_mask=np.array([[True] * 5 + [False]]),
    behavior_log_probs=np.full((1, 6, 3), np.log(0.1)),
  )
  token_ratios = np.array(
    [[2, 0.7, 9], [3, 9, 9], [0.5, 2, 0.6], [4, 0.5, 9], [0.8, 9, 9], [1] * 3]
  )
  log_probs = np.log(0.1 * token_ratios)[None]
  loss, slopes = worked_example.loss(
    methods.get("vespo"),
    rollout,
    log_probs,
    old=np.full((1, 6, 3), np.log(0.3)),  # in no ratio
  )
  # The mean score is 2/5.
  a = np.array([0.6, 0.1, 0.1, -0.4, -0.4])
  rho = np.array([1.4, 3, 0.6, 2, 0.8])
  right = rho**2 * np.exp(3 * (1 - rho))
  wrong = rho**3 * np.exp(2 * (1 - rho))
  weights = (np.where(a >= 0, right, wrong) * a)[:, None] * np.ones((5, 3))
  weights *= np.arange(3) < np.array([2, 1, 3, 2, 1])[:, None]
  # A sum over tokens, averaged over five samples.
  expected = -np.sum(weights * log_probs[0, :5]) / 5
  np.testing.assert_allclose(loss, expected, rtol=1e-5)
  np.testing.assert_allclose(slopes[0, :5], -weights / 5, rtol=1e-5)
  assert not slopes[0, 5].any()


def test_the_mean_weight_and_the_parameters_at_an_advantage_of_0():
  """A sample with A = 0 has those of `positive`; padding does not count."""
  rollout = worked_example.rollout([0, 0], [2, 1])
  log_ratio = jnp.log(jnp.array([[[2.0, 2, 2], [2, 5, 5]]]))[..., :2]
  a = jnp.array([[[0.0, 0.0], [-1.0, 0.0]]])
  policy = types.Named({"log_probs": jnp.full((1, 2, 2), -3.0)})
  surrogate = vespo.gamma_weighted((1.5, 0.5), (0.75, 0.25))
  values, metrics = surrogate.fn(log_ratio, a, policy, rollout)
  right, wrong = 2**1.5 * np.exp(-0.5), 2**0.75 * np.exp(-0.25)
  np.testing.assert_allclose(
    metrics["policy/weight_mean"], [[right, wrong]], rtol=1e-5
  )
  np.testing.assert_allclose(values, [[[0, 0], [3 * wrong, 0]]], rtol=1e-5)


def test_extreme_ratios_have_a_weight_of_0():
  log_ratio = jnp.array([[[-90.0, 90.0, 0.0]]])
  policy = types.Named({"log_probs": jnp.full((1, 1, 3), -1.0)})
  rollout = worked_example.rollout([0], [3])
  surrogate = vespo.gamma_weighted((2.0, 3.0), (3.0, 2.0))
  values, _ = surrogate.fn(log_ratio, jnp.ones((1, 1, 3)), policy, rollout)
  np.testing.assert_allclose(values, [[[0, 0, -1]]], atol=1e-12)
