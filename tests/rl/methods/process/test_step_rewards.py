"""Tests of the baselines of step rewards in small groups."""

import jax.numpy as jnp
import numpy as np
from helpers import compiled

from rl.methods.process import step_rewards

step_rewards = compiled.functions(step_rewards)

NAN = np.nan
# Two samples of 3 and 1 tokens, then a single sample. The others do not exist.
REWARDS = jnp.array([[[0, 1, 0.5], [0.6, NAN, NAN]], [[0, 0.7, 0], [NAN] * 3]])
MASK = jnp.array([[[1, 1, 1], [1, 0, 0]], [[1, 1, 0], [0, 0, 0]]], bool)
ENDS = jnp.array([[[0, 1, 1], [1, 0, 1]], [[0, 1, 0], [1, 1, 0]]], bool)


def test_the_rate_of_another_sample_with_a_single_token():
  """0.6 per token for a step of 2 and 1 tokens, of which one is free."""
  rewards = step_rewards.minus_others_token_rate(REWARDS, MASK, ENDS)
  expected = [[[0, 1 - 0.6, 0.5], [0.6, 0, 0]], np.zeros((2, 3))]
  np.testing.assert_allclose(rewards, expected, rtol=1e-6)


def test_the_mean_of_another_sample_with_a_single_step():
  """The means per step are 0.75 and 0.6."""
  rewards = step_rewards.minus_others_step_mean(REWARDS, MASK, ENDS)
  expected = [[[0, 0.4, -0.1], [-0.15, 0, 0]], np.zeros((2, 3))]
  np.testing.assert_allclose(rewards, expected, rtol=1e-5)


def test_a_step_of_one_token_is_charged_for_nothing():
  """Completions of one token have no room for another step."""
  rewards = jnp.array([[0.5], [2.0]])
  ones = jnp.ones((2, 1), bool)
  charged = step_rewards.minus_others_token_rate(rewards, ones, ones)
  np.testing.assert_allclose(charged, rewards)
