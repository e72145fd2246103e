"""Tests of `rewards.likelihood.t_reg`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rewards.likelihood import t_reg

t_reg = compiled.functions(t_reg)

REWARDS = jnp.array([[0.0, 1.0], [1.0, 0.0]])  # primary, auxiliary


def value(theta, which):
  return jax.nn.softmax(theta) @ REWARDS[which]


def pairs():
  """Log-probs, those of the reference, rewards and mask, `[4, 2, 5]`."""
  rng = np.random.default_rng(2)
  mask = jnp.asarray(np.arange(5) < rng.integers(1, 6, (4, 2, 1)))
  logs = jnp.asarray(-rng.exponential(size=(4, *mask.shape)), jnp.float32)
  return logs[0], logs[1], t_reg.token_rewards(logs[2], logs[3], mask), mask


def test_tokens_are_rewarded_by_what_either_prompt_makes_of_them():
  better = jnp.log(jnp.array([0.8, 0.5, 0.2]))
  worse = jnp.log(jnp.array([0.2, 0.5, 0.8]))
  mask = jnp.array([True, True, True])
  result = t_reg.token_rewards(better, worse, mask)
  np.testing.assert_allclose(result, [0.3, 0, -0.3], atol=1e-6)
  np.testing.assert_allclose(
    t_reg.token_rewards(worse, better, mask), -result, atol=1e-6
  )


@pytest.mark.worked_example("function:t_reg.regularizer")
def test_the_regularisers_slope_is_minus_beta_r():
  log_probs, _, rewards, mask = pairs()
  slope = jax.grad(lambda x: t_reg.regularizer(x, rewards, mask, 0.3).sum())(
    log_probs
  )
  np.testing.assert_allclose(slope, -0.3 * rewards, rtol=1e-6)
  assert not slope[~np.asarray(mask)].any()


@pytest.mark.worked_example("function:t_reg.regularized_dpo")
def test_without_the_regulariser_it_is_dpo():
  log_probs, references, rewards, mask = pairs()
  gap = np.where(mask, np.asarray(log_probs - references), 0).sum(-1)
  margin = 0.2 * (gap[:, 0] - gap[:, 1])
  dpo = np.log1p(np.exp(-margin))
  result = t_reg.regularized_dpo(*pairs(), 0.2, alpha=0.0)
  np.testing.assert_allclose(result, dpo, rtol=1e-5)
  silent = log_probs, references, jnp.zeros_like(rewards), mask
  result = t_reg.regularized_dpo(*silent, 0.2)
  np.testing.assert_allclose(result, dpo, rtol=1e-5)
  regular = -0.2 * np.asarray(rewards * log_probs).sum((-2, -1))
  result = t_reg.regularized_dpo(*pairs(), 0.2, alpha=0.5)
  expected = dpo + 0.5 * regular / (1 + np.exp(margin))
  np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_pairs_that_are_told_apart_are_left_alone():
  log_probs, _, rewards, mask = pairs()
  far = log_probs.at[:, 0].add(-1e3)  # the chosen ones have risen by 1000

  def value(x):
    return t_reg.regularized_dpo(x, far, rewards, mask).sum()

  np.testing.assert_array_equal(jax.grad(value)(log_probs), 0)


@pytest.mark.worked_example(
  "function:t_reg.token_rewards",
  "function:t_reg.regularizer",
  "function:t_reg.regularized_dpo",
)
def test_loss_of_a_pair_by_hand():
  """Log-ratios 10 of the chosen answer and 4 of the rejected one."""
  nan = np.nan
  mask = jnp.array([[True, True, False], [True, True, True]])
  log_probs = jnp.array([[-1, -5, nan], [-2, -3, -4]])
  references = jnp.array([[-8, -8, nan], [-3, -5, -5]])
  tokens = jnp.array([[0.3, -0.2, nan], [-0.1, 0.25, -0.4]])
  # -beta sum_t r_t log pi: -0.1 (-0.3 + 1) and -0.1 (0.2 - 0.75 + 1.6).
  value = t_reg.regularizer(log_probs, tokens, mask)
  np.testing.assert_allclose(value, [-0.07, -0.105], rtol=1e-5)
  # Margin 0.1 (10 - 4): -log sigmoid(0.6) + 0.25 sigmoid(-0.6) (-0.175).
  weight = 1 / (1 + np.exp(0.6))
  expected = np.log(1 + np.exp(-0.6)) - 0.25 * weight * 0.175
  value = t_reg.regularized_dpo(log_probs, references, tokens, mask)
  np.testing.assert_allclose(value, expected, rtol=1e-5)
  # d DPO / d log pi = -+beta sigmoid(-margin), without that of the weight.
  slopes = jax.grad(t_reg.regularized_dpo)(log_probs, references, tokens, mask)
  dpo = np.array([[-1, -1, 0], [1, 1, 1]]) * 0.1 * weight
  regular = -0.25 * weight * 0.1 * np.where(mask, tokens, 0)
  np.testing.assert_allclose(slopes, dpo + regular, rtol=1e-5)
  # sigmoid(log 4) - 1/2 and sigmoid(log 1/3) - 1/2.
  better, worse = jnp.array([0.8, 0.2, nan]), jnp.array([0.2, 0.6, nan])
  value = t_reg.token_rewards(jnp.log(better), jnp.log(worse), mask[0])
  np.testing.assert_allclose(value, [0.3, -0.25, 0], rtol=1e-5)
