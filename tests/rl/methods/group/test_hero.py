"""Worked example of HERO."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example

from rl import methods
from rl.methods.group import hero

SCORES = [[1.05, 0, -0.05, 0.05], [0.95, 1.05, -0.05, -0.05]]
# The second sample of the first group does not exist.
MODEL = [[2.0, 99, 0.5, -1.0], [0.1, 0.3, 0.2, 0.2]]
EXISTS = np.array([[1, 0, 1, 1], [1] * 4], bool)
SPREAD = np.array([np.std([2.0, 0.5, -1.0]), np.std([0.1, 0.3, 0.2, 0.2])])


def z_scores():
  return np.array(
    [clip_example.z_score(r, e) for r, e in zip(SCORES, EXISTS, strict=True)]
  )


def weights(usual, low=0.4, high=3.0, steepness=6.0):
  return low + (high - low) / (1 + np.exp(-steepness * (SPREAD - usual)))


def test_weights_have_the_paper_s_numbers():
  """std([2, 1, .5, -1]) = 1.0825: .4 + 2.6 sigmoid(6 (1.0825 - 1))."""
  spread = np.std([2.0, 1.0, 0.5, -1.0])
  assert hero.spread_weights(spread, 1.0) == pytest.approx(2.0155, abs=1e-3)
  # Spreads 1, 2 and 1/2, with the other bounds of the weights.
  result = hero.spread_weights(jnp.array([1, 2, 0.5]), 1.0, 1.0, 3.0, 2.0)
  sigmoids = 1 / (1 + np.exp([0, -2, 1]))
  np.testing.assert_allclose(result, 1 + 2 * sigmoids, rtol=1e-6)


@pytest.mark.worked_example("method:hero")
def test_z_scores_times_weights_of_prompts():
  """The first batch: the usual spread is the mean of both."""
  rollout = clip_example.rollout(SCORES, components={"quality": MODEL})
  m = methods.get("hero")
  expected = z_scores() * weights(SPREAD.mean())[:, None]
  clip_example.check_advantages(m, rollout, expected)
  assert expected[0, 0] > 2 * z_scores()[0, 0]
  mask = clip_example.mask(rollout)
  clip_example.check_clip(m, rollout, expected, mask / mask.sum(), 0.2, 0.2)
  other = methods.get("hero", model="m", low=1.0, high=2.0, steepness=1.0)
  rollout = clip_example.rollout(SCORES, components={"m": MODEL})
  expected = z_scores() * weights(SPREAD.mean(), 1.0, 2.0, 1.0)[:, None]
  clip_example.check_advantages(other, rollout, expected)


@pytest.mark.worked_example("method:hero")
def test_the_usual_spread_is_a_moving_average():
  """After a batch of spread 0: (.9 0 + mean) .1 / (1 - .81)."""
  rollout = clip_example.rollout(SCORES, components={"quality": MODEL})
  same = rollout.replace(components={"quality": jnp.zeros((2, 4))})
  advantage = methods.get("hero").advantage
  _, state = advantage.apply(None, same, advantage.init())
  result, _ = advantage.apply(None, rollout, state)
  usual = 0.1 * SPREAD.mean() / (1 - 0.9**2)
  expected = z_scores() * weights(usual)[:, None]
  np.testing.assert_allclose(
    result, np.where(EXISTS, expected, 0), rtol=1e-4, atol=1e-6
  )
