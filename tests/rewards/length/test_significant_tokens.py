"""Tests of `rewards.length.significant_tokens`."""

import math

import jax.numpy as jnp
import numpy as np

from rewards.length import (
  significant_tokens,
)


def test_bingo_s_numbers():
  right = significant_tokens.reward(1, 5, 10, 10, 10)
  wrong = significant_tokens.reward(0, 5, 10, 10, 10)
  np.testing.assert_allclose(right, 5.387913, atol=1e-5)
  np.testing.assert_allclose(wrong, -2.061736, atol=1e-5)


def test_bingo_s_bounds():
  dull = jnp.linspace(1, 300, 50)
  right = significant_tokens.reward(1, dull, 10, 10, 10)
  np.testing.assert_allclose(right[-1], 1.0, atol=1e-5)
  assert (jnp.diff(right) <= 0).all()
  assert right[0] < 6.0
  telling = jnp.linspace(1, 300, 50)
  assert (significant_tokens.reward(0, dull, telling, 10, 10) <= 0).all()


def test_bingo_without_a_reference_and_its_weakness():
  """A count of 0 pays a right answer in full: the rule of the code."""
  for counts in ([0, 5, 5, 5], [5, 5, 0, 5], [5, 5, 5, 0]):
    assert significant_tokens.reward(1, *counts) == 6.0
    assert significant_tokens.reward(0, *counts) == -5.0


def test_significant_tokens_are_counted_by_their_normalised_score():
  scores = jnp.array([0.1, 0.2, 0.9, 7.0, 0.5])
  mask = jnp.array([True, True, True, False, True])
  dull, telling = significant_tokens.counts(scores, mask)
  assert (dull, telling) == (2, 2)  # .1 and .2 against .9 and .5
  dull, telling = significant_tokens.counts(jnp.full(5, 0.1), mask)
  assert (dull, telling) == (0, 4)


def test_the_gain_follows_the_slope_and_falls_once_it_stalls():
  base = 5 / (math.pi / 2)
  state, gains = significant_tokens.init_slope(4), []
  accuracies = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6]
  for accuracy in accuracies:
    gain, state = significant_tokens.next_gain(state, accuracy, start=5)
    gains.append(float(gain))
  np.testing.assert_allclose(gains[:4], base, rtol=1e-6)
  np.testing.assert_allclose(gains[4:6], base, rtol=1e-4)  # the first slope
  slope = np.polyfit(range(4), [0.4, 0.5, 0.6, 0.6], 1)[0]
  assert base * slope / 0.1 <= 2.5  # stalled, and so are all that follow
  np.testing.assert_allclose(gains[6:], [-0.5, -1, -1.5, -2, -2.5])
  for _ in range(20):
    gain, state = significant_tokens.next_gain(state, 0.6, start=5)
  np.testing.assert_allclose(gain, -2 * base, rtol=1e-6)


def test_a_window_that_fills_takes_the_slope_of_what_was_seen():
  state, gains = significant_tokens.init_slope(10), []
  accuracies = [0.1, 0.15, 0.5, 0.7]
  for accuracy in accuracies:
    gain, state = significant_tokens.next_gain(state, accuracy, start=3)
    gains.append(float(gain))
  base = 5 / (math.pi / 2)
  slopes = [np.polyfit(range(n), accuracies[:n], 1)[0] for n in (3, 4)]
  expected = [base, base, base, base * slopes[1] / slopes[0]]
  np.testing.assert_allclose(gains, expected, rtol=1e-5)
