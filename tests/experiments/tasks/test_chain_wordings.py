"""Chained arithmetic in two wordings, and the reward that compares them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from experiments import tasks
from experiments.tasks import chain as chains
from experiments.tasks import numbered_problems
from rl import types


@pytest.fixture(scope="module")
def task():
  return tasks.get("chain", operations=2, reworded=True)


def text(task, problems, i):
  return task.decode(problems.prompts[i])


def test_wordings_have_the_same_answer_and_are_not_held_out(task):
  problems = jax.device_get(task.train(jax.random.key(0), 0, 200))
  completions, lengths = map(np.asarray, task.gold(problems))
  exchanged = 0
  for i in range(0, 200, 2):
    first, second = (text(task, problems, j).split() for j in (i, i + 1))
    answers = [completions[j, lengths[j] - 2] for j in (i, i + 1)]
    assert answers[0] == answers[1]
    assert problems.ids[i + 1] % numbered_problems.DIVISOR
    if first != second:
      exchanged += 1
      assert first[1] in "+*"
      assert second == [first[2], first[1], first[0], *first[3:]]
    elif first[1] != "-" and first[0] != first[2]:
      start, operand = int(first[0]), int(first[2])
      difference = (operand - start) * (chains.BASE**2 - chains.BASE)
      assert (problems.ids[i] + difference) % numbered_problems.DIVISOR == 0
  assert exchanged > 30
  with pytest.raises(ValueError, match="3 problems are none"):
    task.train(jax.random.key(0), 0, 3)


def test_answers_to_the_other_wording_label_the_samples(task):
  """Digits 7 7 1 to one wording, 5 1 1 to the other: labels 1 and 7."""
  problems = task.train(jax.random.key(0), 0, 2)
  digits = np.array([[7, 7, 1], [5, 1, 1]])
  completions = np.zeros((2, 3, task.completion_length), np.int32)
  completions[..., 0] = chains.rules.ANSWER
  completions[..., 1] = chains.rules.DIGIT + digits
  completions[..., 2] = chains.rules.EOS
  lengths = np.full((2, 3), 3)
  judged = jax.device_get(
    task.score(problems, completions, lengths, lengths > 0)
  )
  np.testing.assert_array_equal(judged.answer_ids, digits)
  paraphrases = judged.extras["paraphrase_answer_ids"]
  np.testing.assert_array_equal(paraphrases, digits[::-1])
  rollout = worked_example.rollout(np.ones((2, 3)), np.ones((2, 3), int))
  rollout = rollout.replace(
    extras=types.Named(
      {
        "task/answer_ids": jnp.asarray(judged.answer_ids),
        "task/paraphrase_answer_ids": jnp.asarray(paraphrases),
      }
    )
  )
  scores = worked_example.reward("co_reward", rollout)
  np.testing.assert_array_equal(scores, [[0, 0, 1], [0, 0, 0]])
  # A single held-out problem has no partner.
  alone = jax.tree.map(lambda leaf: leaf[:1], problems)
  judged = task.score(alone, completions[:1], lengths[:1], lengths[:1] > 0)
  assert (judged.extras["paraphrase_answer_ids"] == -1).all()
