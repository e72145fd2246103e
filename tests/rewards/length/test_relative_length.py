"""Tests of `rewards.length.relative_length`."""

import jax.numpy as jnp
import numpy as np
import pytest

from rewards.length import relative_length

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
