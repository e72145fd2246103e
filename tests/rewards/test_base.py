"""Tests of `rewards.base`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import reference_views, worked_example

from rewards import base

MASK = jnp.array([[True, False, True], [False, True, False]])


def test_what_is_masked_is_0_in_the_value_and_in_the_gradient():
  x = jnp.array([[0.5, jnp.nan, -2.0], [jnp.inf, 3.0, 7.0]])
  value = base.zero_outside(x, MASK)
  np.testing.assert_array_equal(value, [[0.5, 0, -2], [0, 3, 0]])
  slope = jax.grad(lambda x: (base.zero_outside(x, MASK) ** 2).sum())(x)
  np.testing.assert_array_equal(slope, [[1, 0, -4], [0, 6, 0]])


def test_integers_become_floats_of_the_common_shape():
  value = base.zero_outside(np.array([4, 5, 6]), MASK)
  assert value.dtype == jnp.float32
  np.testing.assert_array_equal(value, [[4, 0, 6], [0, 5, 0]])


def test_only_a_verdict_of_1_is_right():
  right = base.is_right(np.array([1, 0, -1, 2], np.int8))
  np.testing.assert_array_equal(right, [True, False, False, False])


def test_a_need_is_named_by_its_source_and_its_array():
  assert base.parse_need("task/answer_ids") == base.ANSWERS
  assert base.parse_need("sampler/values") == base.STEP_VALUES
  assert str(base.parse_need("task/a/b")) == "task/a/b"
  for text in ("answer_ids", "old/log_probs", "task", ""):
    with pytest.raises(ValueError, match="must name an array of the task"):
      base.parse_need(text)


def test_the_policy_s_text_has_no_token_of_others():
  """A reply of two tokens after the first, and padding after the fourth."""
  rollout = worked_example.rollout(np.zeros(2), [4, 5])
  mask = np.array([[[1, 0, 0, 1, 0], [1, 1, 1, 1, 1]]], bool)
  ids = np.arange(10).reshape(1, 2, 5)
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(completions=ids, mask=mask)
  )
  text, lengths = base.policy_text(rollout)
  np.testing.assert_array_equal(text[0], [[0, -1, -1, 3, -1], [5, 6, 7, 8, 9]])
  np.testing.assert_array_equal(lengths[0], [4, 5])


def test_every_id_from_0_on_is_an_answer():
  rollout = worked_example.rollout(
    np.zeros((2, 2)), extras={"task/answer_ids": [[0, -1], [7, 1]]}
  )
  np.testing.assert_array_equal(
    base.answered(rollout), [[True, False], [True, True]]
  )


def test_a_sample_that_does_not_exist_has_no_reference():
  """References of 2, 3 and 1 tokens; the fourth sample does not exist."""
  mask = base.reference_mask(reference_views.rollout())
  np.testing.assert_array_equal(mask.sum(-1), [[2, 3, 1, 0]])
  np.testing.assert_array_equal(mask[0, 0], [True, True, False])


def test_step_scores_from_minus_1_to_1_are_probabilities():
  rollout = worked_example.rollout(
    np.zeros(3),
    steps=[[1, 2], [1], [1, 1]],
    step_scores=[[-1, 0.5], [0.2], [0.3, 1]],
    sample_mask=jnp.array([[True, True, False]]),
  )
  exists = [[[True, True], [True, False], [False, False]]]
  scores, mask = base.step_scores(rollout)
  np.testing.assert_array_equal(mask, exists)
  np.testing.assert_allclose(scores[0, :2], [[-1, 0.5], [0.2, 0]])
  # (score + 1) / 2
  probabilities, mask = base.step_probabilities(rollout)
  np.testing.assert_array_equal(mask, exists)
  np.testing.assert_allclose(probabilities[0, 0], [0, 0.75])
  np.testing.assert_allclose(probabilities[0, 1, 0], 0.6, rtol=1e-6)
  for read in (base.step_scores, base.step_probabilities):
    with pytest.raises(ValueError, match=r"reads `rollout\.step_scores`"):
      read(worked_example.rollout(np.zeros(3)))


def test_a_component_without_a_name_is_the_score():
  rollout = worked_example.rollout(
    [0.9, 0.1], components={"style": [0.3, 0.4], "form": [1, 0]}
  )
  for name, expected in (("style", [[0.3, 0.4]]), ("form", [[1, 0]])):
    np.testing.assert_allclose(base.read_component(rollout, name), expected)
    np.testing.assert_allclose(base.score(rollout, name), expected)
  np.testing.assert_allclose(base.score(rollout, ""), [[0.9, 0.1]])
  for read in (base.read_component, base.score):
    with pytest.raises(ValueError, match="did you mean 'style'"):
      read(rollout, "stile")
