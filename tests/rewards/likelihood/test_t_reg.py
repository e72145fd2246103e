"""Tests of `rewards.likelihood.t_reg`."""

import jax
import jax.numpy as jnp
import numpy as np

from rewards.likelihood import t_reg

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


def test_the_regularisers_slope_is_minus_beta_r():
  log_probs, _, rewards, mask = pairs()
  slope = jax.grad(lambda x: t_reg.regularizer(x, rewards, mask, 0.3).sum())(
    log_probs
  )
  np.testing.assert_allclose(slope, -0.3 * rewards, rtol=1e-6)
  assert not slope[~np.asarray(mask)].any()


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
