"""Tests of `rewards.outcome.answer_consistency`."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.outcome import answer_consistency
from rl import types

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
  """Right or wrong, the same or different, unanswered; one is not asked again.

  The policy is certain of its second answers: position 1 for all samples. There
  stands option 2 of the first prompt, and option 0 of the second, whose options
  stay where they are.
  """
  first = [[2, 0, 2, 0, -1], [0, 0, 2, 0, -1]]
  correct = [[1, 1, 0, 0, 0], [1, 1, 0, 0, 0]]
  orders = [[2, 0, 1], [0, 1, 2]]
  log_probs = np.full((2, 5, 3), -1e9)
  log_probs[..., 0] = 0.0
  mask = np.zeros((2, 15, 4), bool)
  mask[..., 2] = True
  by_token = np.full((2, 15, 4), np.nan)
  by_token[..., 2] = log_probs.reshape(2, 15)
  zeros = np.zeros((2, 15, 4), np.int32)
  rollout = worked_example.rollout(
    np.zeros((2, 5)),
    correct=correct,
    extras={
      "task/answer_ids": np.array(first),
      "task/option_orders": np.repeat(np.array(orders)[:, None], 5, 1),
      "old@shuffled_options/log_probs": by_token,
    },
    views={
      "shuffled_options": types.Tokens(
        prompts=np.zeros((2, 1), np.int32),
        prompt_mask=np.ones((2, 1), bool),
        completions=zeros,
        lengths=np.full((2, 15), 4),
        mask=mask,
      )
    },
  )
  value = worked_example.reward("answer_consistency", rollout)
  np.testing.assert_allclose(value, [[1, 0.5, 0, 0, 0], [0] * 5])
  value = worked_example.reward(
    "answer_consistency",
    rollout,
    consistent_right=0.9,
    inconsistent_right=0.6,
    consistent_wrong=0.2,
  )
  expected = [[0.9, 0.6, 0.2, 0, 0], [0] * 5]
  np.testing.assert_allclose(value, expected, rtol=1e-6)
  # Position 0 shows option 2, position 1 option 0, position 2 option 1.
  value = answer_consistency.restored(
    jnp.array([0, 1, 2, -1, 3]), jnp.array([[2, 0, 1]] * 5)
  )
  np.testing.assert_array_equal(value, [2, 0, 1, -1, -1])


def test_second_answers_are_drawn_with_the_chances_of_the_policy():
  """4,000 samples choose the option of their first answer with p = .2."""
  count = 4000
  log_probs = np.log([0.5, 0.2, 0.3])
  rollout = worked_example.rollout(
    np.ones((1, count)),
    extras={
      "task/answer_ids": np.zeros((1, count), int),
      "task/option_orders": np.broadcast_to([1, 0, 2], (1, count, 3)),
      "old@shuffled_options/log_probs": np.tile(log_probs, count)[
        None, :, None
      ],
    },
    views={
      "shuffled_options": types.Tokens(
        prompts=np.zeros((1, 1), np.int32),
        prompt_mask=np.ones((1, 1), bool),
        completions=np.zeros((1, 3 * count, 1), np.int32),
        lengths=np.ones((1, 3 * count), int),
        mask=np.ones((1, 3 * count, 1), bool),
      )
    },
  )
  value = np.asarray(worked_example.reward("answer_consistency", rollout))
  share = (value == 1).mean()
  assert ((value == 1) | (value == 0.5)).all()
  assert abs(share - 0.2) < 4 * np.sqrt(0.2 * 0.8 / count)
