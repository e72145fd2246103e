"""Tests of `rewards.length.relative_length`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.length import relative_length

relative_length = compiled.functions(relative_length)

CORRECT = jnp.array([1, 1, 1, 0])
LENGTHS = jnp.array([100, 200, 300, 150])


def test_right_answers_pay_for_length_and_wrong_ones_have_nothing():
  result = relative_length.relative_length_scores(CORRECT, LENGTHS, 0.2)
  np.testing.assert_allclose(result, [0.954579, 0.9, 0.845421, 0], atol=1e-6)


def test_without_a_charge_it_is_the_verdict():
  np.testing.assert_array_equal(
    relative_length.relative_length_scores(CORRECT, LENGTHS, 0.0), CORRECT
  )


def test_a_single_right_answer_pays_half_the_charge():
  result = relative_length.relative_length_scores(
    jnp.array([0, 1, 0]), LENGTHS[:3], 0.4
  )
  np.testing.assert_allclose(result, [0, 0.8, 0], atol=1e-7)
  nothing = relative_length.relative_length_scores(
    jnp.zeros(3, int), LENGTHS[:3]
  )
  np.testing.assert_array_equal(nothing, 0)


def test_the_other_paper_s_term_is_this_one():
  """ok - w ok 2 (sigmoid(z) - 1/2) is the same up to a factor 1 + w."""
  w = 0.3
  lengths = np.array([100.0, 200.0, 300.0])
  z = (lengths - lengths.mean()) / lengths.std()
  theirs = 1 - w * 2 * (1 / (1 + np.exp(-z)) - 0.5)
  ours = relative_length.relative_length_scores(
    jnp.ones(3), lengths, 2 * w / (1 + w)
  )
  np.testing.assert_allclose((1 + w) * ours, theirs, rtol=1e-6)


@pytest.mark.worked_example("function:relative_length.easiest")
def test_the_easiest_prompts_by_fraction():
  correct = jnp.array([[0, 1], [1, 1], [0, 0], [1, 1], [1, 0]])
  assert relative_length.easiest(correct, 0.0).sum() == 0
  assert relative_length.easiest(correct, 1.0).all()
  np.testing.assert_array_equal(
    relative_length.easiest(correct, 0.2), [False, True, False, False, False]
  )
  np.testing.assert_array_equal(  # 0.41 of 5 is 3; of equals the first
    relative_length.easiest(correct, 0.41), [True, True, False, True, False]
  )
  valid = jnp.ones(correct.shape, bool).at[1].set(False)
  assert not relative_length.easiest(correct, 0.9, valid)[1]
  with pytest.raises(
    ValueError, match=r"fraction = 2 .* nearest valid value is 1"
  ):
    relative_length.easiest(correct, 2.0)


@pytest.mark.worked_example(
  "reward:relative_length", "function:relative_length.relative_length_scores"
)
def test_lengths_among_the_right_answers():
  """Right answers of 1, 3 and 8 tokens: mean 4, variance (9 + 1 + 16) / 3."""
  rollout = worked_example.rollout(
    np.zeros((2, 5)),
    [[1, 3, 20, 8, 50], [2, 7, 9, 4, 5]],
    correct=[[1, 1, 0, 1, 1], [0, 1, -1, 0, 1]],
    sample_mask=jnp.array([[True] * 4 + [False]] * 2),
  )
  # 1 - 0.2 sigmoid(z); a single right answer has z = 0.
  z = np.array([-3, -1, 4]) / np.sqrt(26 / 3)
  a, b, c = 1 - 0.2 / (1 + np.exp(-z))
  expected = [[a, b, 0, c, 0], [0, 0.9, 0, 0, 0]]
  value = worked_example.reward("relative_length", rollout)
  np.testing.assert_allclose(value, expected, atol=1e-6)
  value = relative_length.relative_length_scores(
    jnp.array([1, 1, 0, 1]), jnp.array([1, 3, 20, 8])
  )
  np.testing.assert_allclose(value, [a, b, 0, c], atol=1e-6)
  # alpha 0.6; z = -1 and 1 for 3 and 4 tokens; z = 0 for equal lengths.
  value = worked_example.reward("relative_length", rollout, alpha=0.6)
  np.testing.assert_allclose(value[0, 3], 1 - 0.6 / (1 + np.exp(-z[2])))
  pairs = worked_example.rollout(np.ones((2, 2)), [[3, 4], [6, 6]])
  value = worked_example.reward("relative_length", pairs)
  expected = [[1 - 0.2 / (1 + np.e), 1 - 0.2 / (1 + 1 / np.e)], [0.9, 0.9]]
  np.testing.assert_allclose(value, expected, rtol=1e-6)


@pytest.mark.worked_example(
  "reward:charged_where_easy", "function:relative_length.easiest"
)
def test_charge_on_the_easiest_fifth_of_prompts():
  """Accuracies 1/3, 2/3, 1, 1/3 and 0: one of five prompts is charged."""
  exists = jnp.ones((5, 3), bool).at[2, 2].set(False)
  rollout = worked_example.rollout(
    np.zeros((5, 3)),
    [[3, 8, 5], [4, 10, 7], [2, 6, 12], [1, 2, 3], [4, 2, 9]],
    correct=[[1, 0, -1], [1, 1, 0], [1, 1, 0], [0, 1, 0], [0, 0, -1]],
    sample_mask=exists,
  )
  easy = relative_length.easiest(rollout.correct, valid=exists)
  np.testing.assert_array_equal(easy, [False, False, True, False, False])
  # Two batches of prompts; a prompt without samples; a tenth of 30 is 3.
  two = jnp.array([[[1], [0], [1]], [[0], [0], [1]]])
  easy = relative_length.easiest(two, 0.3)
  np.testing.assert_array_equal(easy, [[1, 0, 0], [0, 0, 1]])
  easy = relative_length.easiest(
    jnp.zeros((2, 1)), 1.0, jnp.array([[False], [True]])
  )
  np.testing.assert_array_equal(easy, [False, True])
  # Of 30 equal prompts the first three.
  easy = relative_length.easiest(jnp.ones((30, 1)), 0.1)
  np.testing.assert_array_equal(easy, np.arange(30) < 3)
  # A product counts as an integer if it exceeds it by less than 1e-4.
  for fraction, count in ((0.300005, 3), (0.300015, 4)):
    assert relative_length.easiest(jnp.ones((10, 1)), fraction).sum() == count
  # Lengths 2 and 6 have z = -1 and 1: 1 - 0.2 sigmoid(z). Others: verdicts.
  low, high = 1 / (1 + np.e), 1 / (1 + 1 / np.e)
  verdicts = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 0], [0, 1, 0], [0] * 3])
  expected = verdicts.astype(float)
  expected[2] = [1 - 0.2 * low, 1 - 0.2 * high, 0]
  value = worked_example.reward("charged_where_easy", rollout)
  np.testing.assert_allclose(value, expected, atol=1e-6)
  # Two of five, the second with lengths 4 and 10, and alpha = 1/2.
  expected[1] = expected[2] = [1 - 0.5 * low, 1 - 0.5 * high, 0]
  value = worked_example.reward(
    "charged_where_easy", rollout, fraction=0.4, alpha=0.5
  )
  np.testing.assert_allclose(value, expected, atol=1e-6)
