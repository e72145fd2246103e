"""Rewards of length, of steps and of significant tokens."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from rewards import length, significance, step_count

CORRECT = jnp.array([1, 1, 1, 0])
LENGTHS = jnp.array([100, 200, 300, 150])


def test_right_answers_pay_for_length_and_wrong_ones_have_nothing():
  found = length.relative_length(CORRECT, LENGTHS, 0.2)
  np.testing.assert_allclose(found, [0.954579, 0.9, 0.845421, 0], atol=1e-6)


def test_without_a_charge_it_is_the_verdict():
  np.testing.assert_array_equal(
    length.relative_length(CORRECT, LENGTHS, 0.0), CORRECT
  )


def test_a_single_right_answer_pays_half_the_charge():
  found = length.relative_length(jnp.array([0, 1, 0]), LENGTHS[:3], 0.4)
  np.testing.assert_allclose(found, [0, 0.8, 0], atol=1e-7)
  nothing = length.relative_length(jnp.zeros(3, int), LENGTHS[:3])
  np.testing.assert_array_equal(nothing, 0)


def test_the_other_paper_s_term_is_this_one():
  """ok - w ok 2 (sigmoid(z) - 1/2) is the same up to a factor 1 + w."""
  w = 0.3
  lengths = np.array([100.0, 200.0, 300.0])
  z = (lengths - lengths.mean()) / lengths.std()
  theirs = 1 - w * 2 * (1 / (1 + np.exp(-z)) - 0.5)
  ours = length.relative_length(jnp.ones(3), lengths, 2 * w / (1 + w))
  np.testing.assert_allclose((1 + w) * ours, theirs, rtol=1e-6)


def test_the_easiest_prompts_by_fraction():
  correct = jnp.array([[0, 1], [1, 1], [0, 0], [1, 1], [1, 0]])
  assert length.easiest(correct, 0.0).sum() == 0
  assert length.easiest(correct, 1.0).all()
  np.testing.assert_array_equal(
    length.easiest(correct, 0.2), [False, True, False, False, False]
  )
  np.testing.assert_array_equal(  # 0.41 of 5 is 3; of equals the first
    length.easiest(correct, 0.41), [True, True, False, True, False]
  )
  valid = jnp.ones(correct.shape, bool).at[1].set(False)
  assert not length.easiest(correct, 0.9, valid)[1]
  with pytest.raises(ValueError, match=r"fraction = 2 .* nearest: 1"):
    length.easiest(correct, 2.0)


def test_price_of_a_token_and_its_controller():
  found = length.token_price(CORRECT, LENGTHS, 0.001)
  np.testing.assert_allclose(found, [0.9, 0.8, 0.7, -0.15], atol=1e-6)
  price, total = jnp.float32(0.002), 0.002
  for accuracy in [0.9, 0.7, 0.5, 0.5]:
    price = length.next_price(price, accuracy, 0.6, rate=0.01)
    total += 0.01 * (accuracy - 0.6)
  np.testing.assert_allclose(price, total, rtol=1e-5)
  np.testing.assert_allclose(length.next_price(price, 0.6, 0.6), price)
  assert length.next_price(0.001, 0.0, 0.6, rate=1.0) == 0


def test_the_weakness_of_a_price_is_silence():
  """Dear enough, saying nothing beats a right answer: hence the controller."""
  right, silent = length.token_price(
    jnp.array([1, 0]), jnp.array([600, 0]), 0.002
  )
  assert silent > right


def test_shorter_than_the_group_and_its_weakness():
  lengths = jnp.array([50.0, 100.0, 150.0])
  found = length.harmonized_length(lengths)
  np.testing.assert_allclose(found, [1, 0, -1 / 3], atol=1e-6)
  assert length.harmonized_length(jnp.array([0.0, 9.0]))[0] == 1


# Bingo.


def test_bingo_s_numbers():
  right = significance.reward(1, 5, 10, 10, 10)
  wrong = significance.reward(0, 5, 10, 10, 10)
  np.testing.assert_allclose(right, 5.387913, atol=1e-5)
  np.testing.assert_allclose(wrong, -2.061736, atol=1e-5)


def test_bingo_s_bounds():
  dull = jnp.linspace(1, 300, 50)
  right = significance.reward(1, dull, 10, 10, 10)
  np.testing.assert_allclose(right[-1], 1.0, atol=1e-5)
  assert (jnp.diff(right) <= 0).all()
  assert right[0] < 6.0
  telling = jnp.linspace(1, 300, 50)
  assert (significance.reward(0, dull, telling, 10, 10) <= 0).all()


def test_bingo_without_a_reference_and_its_weakness():
  """A count of 0 pays a right answer in full: the rule of the code."""
  for counts in ([0, 5, 5, 5], [5, 5, 0, 5], [5, 5, 5, 0]):
    assert significance.reward(1, *counts) == 6.0
    assert significance.reward(0, *counts) == -5.0


def test_significant_tokens_are_counted_by_their_normalised_score():
  scores = jnp.array([0.1, 0.2, 0.9, 7.0, 0.5])
  mask = jnp.array([True, True, True, False, True])
  dull, telling = significance.counts(scores, mask)
  assert (dull, telling) == (2, 2)  # .1 and .2 against .9 and .5
  dull, telling = significance.counts(jnp.full(5, 0.1), mask)
  assert (dull, telling) == (0, 4)


def test_the_gain_follows_the_slope_and_falls_once_it_stalls():
  base = 5 / (math.pi / 2)
  state, gains = significance.init_slope(4), []
  accuracies = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6]
  for accuracy in accuracies:
    gain, state = significance.next_gain(state, accuracy, start=5)
    gains.append(float(gain))
  np.testing.assert_allclose(gains[:4], base, rtol=1e-6)
  np.testing.assert_allclose(gains[4:6], base, rtol=1e-4)  # the first slope
  slope = np.polyfit(range(4), [0.4, 0.5, 0.6, 0.6], 1)[0]
  assert base * slope / 0.1 <= 2.5  # stalled, and so are all that follow
  np.testing.assert_allclose(gains[6:], [-0.5, -1, -1.5, -2, -2.5])
  for _ in range(20):
    gain, state = significance.next_gain(state, 0.6, start=5)
  np.testing.assert_allclose(gain, -2 * base, rtol=1e-6)


def test_a_window_that_fills_takes_the_slope_of_what_was_seen():
  state, gains = significance.init_slope(10), []
  accuracies = [0.1, 0.15, 0.5, 0.7]
  for accuracy in accuracies:
    gain, state = significance.next_gain(state, accuracy, start=3)
    gains.append(float(gain))
  base = 5 / (math.pi / 2)
  slopes = [np.polyfit(range(n), accuracies[:n], 1)[0] for n in (3, 4)]
  expected = [base, base, base, base * slopes[1] / slopes[0]]
  np.testing.assert_allclose(gains, expected, rtol=1e-5)


# Steps.


def test_the_shape_of_steps_has_the_paper_s_numbers():
  quality, steps = jnp.array([0.9, 0.9, 0.5, 0.1]), jnp.array([4, 6, 6, 6])
  found = step_count.nonlinear_shape(quality, steps)
  expected = [6.65015, 8.122512, 3.943543, 0.604965]
  np.testing.assert_allclose(found, expected, rtol=1e-5)
  np.testing.assert_allclose(
    step_count.weibull_shape(jnp.array(4)), 0.999406, atol=1e-5
  )


def test_the_weibull_s_mode():
  steps = jnp.linspace(0.01, 30, 30_000)
  found = step_count.weibull_shape(steps)
  mode = 8 * (0.5 / 1.5) ** (1 / 1.5)
  np.testing.assert_allclose(steps[jnp.argmax(found)], mode, atol=2e-3)
  assert found.max() < 1.001
  assert step_count.weibull_shape(jnp.array(0)) == 0


def test_mean_of_the_steps_and_no_reward_for_one():
  p = jnp.array([[0.9, 0.4, 0.6], [0.5, 0.0, 0.5], [0.9, 7.0, 7.0]])
  mask = jnp.array([[True] * 3, [True] * 3, [True, False, False]])
  mean = step_count.geometric_mean(p, mask)
  np.testing.assert_allclose(mean, [(0.9 * 0.24) ** (1 / 3), 0, 0.9], rtol=1e-6)
  for reward in (step_count.nonlinear, step_count.weibull):
    found = reward(p, mask)
    assert found[0] > 0
    assert found[1] == found[2] == 0
    assert reward(p, jnp.zeros((3, 3), bool)).sum() == 0


def test_the_nonlinear_reward_counts_the_mean_twice():
  p = jnp.array([[0.9] * 6, [0.5] * 6, [0.1] * 6, [0.9] * 6])
  mask = jnp.array([[True] * 6] * 3 + [[True] * 4 + [False] * 2])
  expected = [0.9 * 8.122512, 0.5 * 3.943543, 0.1 * 0.604965, 0.9 * 6.65015]
  np.testing.assert_allclose(step_count.nonlinear(p, mask), expected, rtol=1e-5)


def test_the_weakness_of_the_nonlinear_shape_is_padding():
  """Further passable steps always pay; Weibull's shape ends that."""
  long = jnp.full((1, 64), 0.9)
  few = jnp.arange(64) < 6
  many = jnp.arange(64) < 60
  assert step_count.nonlinear(long, many) > 10 * step_count.nonlinear(long, few)
  assert step_count.weibull(long, many) < step_count.weibull(long, few)
