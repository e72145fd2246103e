"""Tests of `rewards.outcome.answer_consistency`."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.outcome import answer_consistency

answer_consistency = compiled.functions(answer_consistency)


def test_lines_of_the_consistency_reward():
  first = jnp.array([2, 2, 1, 1, -1, 2])
  second = jnp.array([2, 0, 1, 0, -1, -1])
  correct = jnp.array([1, 1, 0, 0, 0, 1])
  result = answer_consistency.answer_consistency_scores(
    first, second, correct, consistent_wrong=0.2
  )
  np.testing.assert_allclose(result, [1, 0.5, 0.2, 0, 0, 0.5])
  skipped = answer_consistency.answer_consistency_scores(
    first, second, correct, jnp.zeros(6, bool)
  )
  np.testing.assert_array_equal(skipped, 0)


ORDERS = np.array(list(itertools.permutations(range(4))))


def test_who_follows_the_options_gets_the_top_value_under_every_shuffle():
  for truth in range(4):
    place = np.argsort(ORDERS, -1)[:, truth]  # where the option went
    again = answer_consistency.restored(jnp.asarray(place), jnp.asarray(ORDERS))
    np.testing.assert_array_equal(again, truth)
    result = answer_consistency.answer_consistency_scores(
      jnp.full(24, truth), again, jnp.ones(24, int)
    )
    np.testing.assert_array_equal(result, 1.0)


def test_who_follows_the_letter_is_found_out():
  """Always the first option, right by luck: caught in 18 of 24 shuffles."""
  again = answer_consistency.restored(jnp.zeros(24, int), jnp.asarray(ORDERS))
  result = answer_consistency.answer_consistency_scores(
    jnp.zeros(24, int), again, jnp.ones(24, int)
  )
  assert (result == 0.5).sum() == 18
  assert (
    answer_consistency.restored(jnp.array([-1, 4]), jnp.asarray(ORDERS[:2]))
    == -1
  ).all()


def test_consistency_s_null_audit():
  """Nothing that is wrong beats, in all, what is right."""
  for first, second, correct in itertools.product(
    (-1, 0, 1), (-1, 0, 1), (0, -1)
  ):
    null = answer_consistency.answer_consistency_scores(
      *(jnp.array(x) for x in (first, second, correct))
    )
    assert null + 0 < 1 + 0.5  # accuracy and the least of r_c


@pytest.mark.worked_example(
  "reward:answer_consistency",
  "function:answer_consistency.answer_consistency_scores",
  "function:answer_consistency.restored",
)
def test_answers_to_shuffled_options_by_hand():
  """Right or wrong, the same or different, unanswered, not asked again."""
  first = [2, 2, 3, 1, 1, -1, 2, 1]
  second = [2, 0, -1, 1, 0, -1, -2, -2]
  correct = [1, 1, 1, 0, -1, 0, 1, 0]
  rollout = worked_example.rollout(
    np.zeros(8),
    correct=correct,
    extras={
      "task/answer_ids": np.array([first]),
      "task/shuffled_answer_ids": np.array([second]),
    },
  )
  value = worked_example.reward("answer_consistency", rollout)
  np.testing.assert_allclose(value, [[1, 0.5, 0.5, 0, 0, 0, 0, 0]])
  value = worked_example.reward(
    "answer_consistency",
    rollout,
    consistent_right=0.9,
    inconsistent_right=0.6,
    consistent_wrong=0.2,
  )
  expected = [[0.9, 0.6, 0.6, 0.2, 0, 0, 0, 0]]
  np.testing.assert_allclose(value, expected, rtol=1e-6)
  value = answer_consistency.answer_consistency_scores(
    *(jnp.array(x) for x in (first, second, correct))
  )
  np.testing.assert_allclose(value, [1, 0.5, 0.5, 0, 0, 0, 0.5, 0])
  # Position 0 shows option 2, position 1 option 0, position 2 option 1.
  value = answer_consistency.restored(
    jnp.array([0, 1, 2, -1, 3]), jnp.array([[2, 0, 1]] * 5)
  )
  np.testing.assert_array_equal(value, [2, 0, 1, -1, -1])
