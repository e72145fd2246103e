"""Tests of `rewards.length.significant_tokens`."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rewards.length import (
  significant_tokens,
)

significant_tokens = compiled.functions(significant_tokens)


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


@pytest.mark.worked_example("function:significant_tokens.reward")
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
  # A token at the threshold is significant, also of two completions.
  dull, telling = significant_tokens.counts(
    jnp.array([[0.0, 1.0, 2.0], [5.0, 3.0, 3.0]]), jnp.ones((2, 3), bool)
  )
  np.testing.assert_array_equal(dull, [1, 2])
  np.testing.assert_array_equal(telling, [2, 1])


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


@pytest.mark.worked_example("function:significant_tokens.next_gain")
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


@pytest.mark.worked_example(
  "function:significant_tokens.counts", "function:significant_tokens.reward"
)
def test_counts_and_reward_by_hand():
  """Ratios u = 3 / 4 and v = 8 / 10 to the counts of the reference."""
  # Min-max: 0, 1/2, 1, 1/4 and (masked) beyond; below 1/2 is insignificant.
  scores = jnp.array([0.2, 0.5, 0.8, 0.35, jnp.nan])
  mask = jnp.array([True, True, True, True, False])
  counts = significant_tokens.counts(scores, mask)
  np.testing.assert_array_equal(counts, [2, 2])
  # Two texts, and the threshold 0.2.
  counts = significant_tokens.counts(
    jnp.stack([scores, -scores]), jnp.stack([mask, mask]), 0.2
  )
  np.testing.assert_array_equal(counts, [[1, 1], [3, 3]])
  # right: 1 + 5 cos(min(u, pi / 2));
  # wrong: min(0, 2 (cos(min(u, pi / 2)) - 1) + 5 v / (pi / 2) - 5).
  correct = jnp.array([1, 0, 1, 0, 0, -1])
  dull = jnp.array([3, 3, 40, 40, 3, 3])
  significant = jnp.array([8, 8, 8, 8, 20, 8])
  wrong = 2 * (math.cos(0.75) - 1) + 8 / math.pi - 5
  expected = [1 + 5 * math.cos(0.75), wrong, 1, -2 + 8 / math.pi - 5, 0, wrong]
  result = significant_tokens.reward(correct, dull, significant, 4, 10)
  np.testing.assert_allclose(result, expected, atol=1e-5)
  # A single token of each kind is enough: u = 1 / 2 and v = 1 / 3.
  result = significant_tokens.reward(correct[:2], 1, 1, 2, 3)
  wrong = 2 * (math.cos(0.5) - 1) + 5 / (math.pi / 2) / 3 - 5
  expected = [1 + 5 * math.cos(0.5), wrong]
  np.testing.assert_allclose(result, expected, atol=1e-5)
  # Gain -1 and weights 2, 3 and 1.
  result = significant_tokens.reward(
    correct[:2], dull[:2], significant[:2], 4, 10, -1.0, 2.0, 3.0, 1.0
  )
  cosine = math.cos(0.75)
  expected = [1 + 2 * cosine, 3 * (cosine - 1) - 0.8 - 1]
  np.testing.assert_allclose(result, expected, atol=1e-5)


@pytest.mark.worked_example("function:significant_tokens.next_gain")
def test_gain_from_step_50_on():
  """Slopes of ten accuracies by least squares, scaled by that of step 50."""
  g0 = 5 / (math.pi / 2)
  steps = [0.02, 0.05, 0.03, 0.08, 0.06, 0.1, 0.12, 0.11, 0.2]
  accuracies = [*steps, 0.24, 0.26, 0.3, 0.1, 0.0, 0.4, 0.7, 0.0]
  slopes = [
    np.polyfit(range(10), accuracies[i : i + 10], 1)[0] for i in range(8)
  ]
  state = significant_tokens.init_slope()
  assert state.accuracies.shape == (10,)
  state = state._replace(accuracies=jnp.array([9.0, *steps]), steps=48)
  gains = []
  for accuracy in accuracies[9:]:
    gain, state = significant_tokens.next_gain(state, accuracy)
    gains.append(float(gain))
  scaled = g0 * np.array(slopes) / slopes[1]
  stalled = scaled <= 2.5
  np.testing.assert_array_equal(stalled[2:], [0, 1, 1, 1, 0, 1])
  # Step 49: g0; stalled for the n-th step in a row: -n / 2.
  expected = [g0, g0, scaled[2], -0.5, -1, -1.5, scaled[6], -0.5]
  np.testing.assert_allclose(gains, expected, rtol=1e-3)
  # A slope needs two steps: after 0.4 and 0.3 it is scaled to -g0, and stalled.
  # One of 0.001 is scaled to g0, the next one by the same factor.
  # After a slope of 0 the factor is g0: least squares of 0.5, 0.5, 0.9.
  for accuracies, expected in (
    ([0.4, 0.3], [g0, -0.5]),
    ([0.5, 0.501, 0.505], [g0, g0, 2.5 * g0]),
    ([0.5, 0.5, 0.9], [g0, -0.5, 0.2 * g0]),
  ):
    state, gains = significant_tokens.init_slope(3), []
    for accuracy in accuracies:
      gain, state = significant_tokens.next_gain(
        state, accuracy, start=1, threshold=0.1
      )
      gains.append(float(gain))
    np.testing.assert_allclose(gains, expected, rtol=1e-3)
  # A scaled slope of exactly 2.5 is stalled; the gain is at least -2 g0.
  line = jnp.arange(10.0) * 2.5
  for low, expected in ((3, -2.0), (20, -2 * g0)):
    state = significant_tokens.SlopeState(line, 60, jnp.ones(()), low)
    gain, _ = significant_tokens.next_gain(state, 25.0)
    np.testing.assert_allclose(gain, expected, rtol=1e-6)
