"""Tests of `rewards.controls.coins`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.controls import coins as coins_rewards
from rewards.controls import flipped_groups
from rl import advantages

coins_rewards = compiled.functions(coins_rewards)


def keys(n, seed=0):
  return jax.random.split(jax.random.key(seed), n)


def test_no_two_controls_share_a_draw():
  """Fair coins of one sample, and turns of one wrong sample, by one key."""
  n = 20000
  coins = np.asarray(coins_rewards.draw_coins(keys(n), 1))[:, 0]
  turned = flipped_groups.flip_groups(jnp.zeros((n, 1), int), keys(n), 0.5)
  uniform = jax.vmap(jax.random.uniform)(keys(n))  # what others may draw
  others = [np.asarray(turned)[:, 0], np.asarray(uniform)]
  for other in others:
    assert abs(np.corrcoef(coins, other)[0, 1]) < 5 / np.sqrt(n)
  assert abs(np.corrcoef(*others)[0, 1]) < 5 / np.sqrt(n)


def test_coins_are_fair_independent_and_blind():
  n, p = 20000, 0.3
  result = np.asarray(coins_rewards.draw_coins(keys(n), 3, p))
  error = 5 * np.sqrt(p * (1 - p) / n)
  np.testing.assert_allclose(result.mean(0), p, atol=error)
  np.testing.assert_allclose(
    np.corrcoef(result.T), np.eye(3), atol=5 / np.sqrt(n)
  )
  # By prompt and sample: neither the batch nor the group's size matters.
  np.testing.assert_array_equal(
    coins_rewards.draw_coins(keys(n)[5:7], 2, p), result[5:7, :2]
  )
  assert (coins_rewards.draw_coins(keys(4), 3, 1.0) == 1).all()
  assert (coins_rewards.draw_coins(keys(4), 3, 0.0) == 0).all()
  for p, nearest in ((1.5, 1), (-0.5, 0)):
    with pytest.raises(ValueError, match=f"nearest valid value is {nearest}"):
      coins_rewards.draw_coins(keys(1), 1, p)


@pytest.mark.parametrize(
  "baseline", [advantages.leave_one_out, advantages.group_normalize]
)
def test_coins_teach_nothing_on_average(baseline):
  """The advantage of each of four coins has mean 0, to 5 standard errors."""
  n = 20000
  result = np.asarray(baseline(coins_rewards.draw_coins(keys(n), 4)))
  assert result.std(0).min() > 0.4
  error = 5 * result.std(0) / np.sqrt(n)
  assert (np.abs(result.mean(0)) < error).all()
  alone = baseline(coins_rewards.draw_coins(keys(8), 1))
  np.testing.assert_array_equal(alone, 0)


@pytest.mark.worked_example("reward:coins", "function:coins.draw_coins")
def test_coins_of_a_rollout():
  """2000 draws have the mean p up to 5 standard errors sqrt(p (1 - p) / n)."""
  rollout = worked_example.rollout(np.zeros((400, 5)))
  for p, settings in ((0.5, {}), (0.2, {"probability": 0.2})):
    value = worked_example.reward("coins", rollout, **settings)
    assert set(np.unique(value)) == {0, 1}
    assert abs(value.mean() - p) < 5 * np.sqrt(p * (1 - p) / 2000)
  mean = np.mean(coins_rewards.draw_coins(rollout.keys, 5))
  assert abs(mean - 0.5) < 5 * np.sqrt(0.25 / 2000)
