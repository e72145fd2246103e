"""Worked example of forward correction with appeals."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example

from rl import methods
from rl.methods.verdicts import noisy_appeals

# The second sample does not exist. Two of five are accepted; of two appeals one
# succeeds.
SCORES = [1, 0, 0, 1, 0, 0]
APPEALS = [-1, 1, 1, -1, 0, -1]


def rollout(appeals):
  return clip_example.rollout(SCORES, components={"appeal": [appeals]})


def test_rates_of_a_verifier():
  """Of 10 answers 4 are accepted and 3 of the 6 others right: 3 / 7."""
  rate = noisy_appeals.false_negative_rate(
    jnp.array([0.4, 1.0, 0.0, 0.0]), jnp.array([0.5, 0.5, 0.5, 0.0])
  )
  np.testing.assert_allclose(rate, [3 / 7, 0, 1, 0], rtol=1e-6)


@pytest.mark.worked_example("method:noisy_appeals")
def test_the_rate_of_the_first_batch():
  """a = 2/5 and q = 1/2: r1 = .3 / .7."""
  example = rollout(APPEALS)
  weights = clip_example.mask(example) / 10
  r1 = 3 / 7
  advantages = np.array([[r1, 0, r1 - 1, r1, r1 - 1, r1 - 1]])
  m = methods.get("noisy_appeals")
  clip_example.check_clip(m, example, advantages, weights, 0.2, 0.2)
  m = methods.get("noisy_appeals", largest=0.25)
  low = np.array([[0.25, 0, -0.75, 0.25, -0.75, -0.75]])
  clip_example.check_advantages(m, example, low)
  other = example.replace(components={"a": example.components["appeal"]})
  m = methods.get("noisy_appeals", appeals="a")
  clip_example.check_advantages(m, other, advantages)


@pytest.mark.worked_example("method:noisy_appeals")
def test_the_rate_is_a_moving_average():
  """Without an appeal r1 = 0; a batch without one does not change q."""
  advantage = methods.get("noisy_appeals", decay=0.5).advantage
  state = advantage.init()
  rates = []
  for appeals in ([-1] * 6, APPEALS, [-1] * 6, [-1, 0, 1, -1, 1, 1]):
    result, state = advantage.apply(None, rollout(appeals), state)
    rates.append(float(result[0, 0]))
  # q: none, 1/2, 1/2, then (.25 1/2 + .5 1) / .75 of one and three appeals.
  qs = [0, 1 / 2, 1 / 2, (0.25 * 0.5 + 0.5 * 1) / 0.75]
  expected = [0.6 * q / (0.4 + 0.6 * q) for q in qs]
  np.testing.assert_allclose(rates, expected, rtol=1e-5)
