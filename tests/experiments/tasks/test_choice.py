"""Chained arithmetic with options, and the second answers of its samples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import tasks
from experiments.tasks import choice
from rewards.tasks import chain as rules

TASK = tasks.get("choice", operations=2, options=3)
PROBLEMS = TASK.train(jax.random.key(0), 0, 64)
SHOWN = np.asarray(PROBLEMS.facts["options"])
ORDER = np.asarray(PROBLEMS.facts["order"])
TRUTH = np.asarray(
  rules.result(
    **{k: PROBLEMS.facts[k] for k in ("start", "operators", "operands")}
  )
)


def score(texts):
  """Judges one completion of each of the first problems."""
  count = len(texts)
  problems = jax.tree.map(lambda x: x[:count], PROBLEMS)
  completions = np.zeros((count, 1, TASK.completion_length), np.int32)
  lengths = np.zeros((count, 1), np.int32)
  for row, text in enumerate(texts):
    ids = TASK.completion_ids(text)
    completions[row, 0, : len(ids)], lengths[row] = ids, len(ids)
  return TASK.score(problems, jnp.array(completions), lengths, lengths > 0)


def test_the_options_are_different_digits_with_the_result():
  assert SHOWN.shape == (64, 3)
  assert ((SHOWN >= 0) & (SHOWN < 10)).all()
  for row, truth in zip(SHOWN, TRUTH, strict=True):
    assert len(set(row)) == 3
    assert truth in row
  places = np.argmax(TRUTH[:, None] == SHOWN, -1)
  assert set(places) == {0, 1, 2}
  for row, prompt in zip(SHOWN, PROBLEMS.prompts, strict=True):
    shown = TASK.decode(prompt).partition("= ")[2]
    assert shown == " ".join(map(str, row))
  # They depend on the problem alone.
  again = TASK.train(jax.random.key(5), 3, 64)
  both = set(again.ids.tolist()) & set(PROBLEMS.ids.tolist())
  for i in both:
    rows = [np.flatnonzero(p.ids == i)[0] for p in (again, PROBLEMS)]
    np.testing.assert_array_equal(
      again.facts["options"][rows[0]], SHOWN[rows[1]]
    )


def test_the_position_is_the_answer():
  right = np.argmax(TRUTH[:4, None] == SHOWN[:4], -1) + 1
  wrong = right[3] % 3 + 1
  judged = score([f"ANS {right[0]}", f"ANS {wrong}", "ANS 0", "ANS 4"])
  # The second text is the answer of the fourth problem.
  second = SHOWN[1, wrong - 1] == TRUTH[1]
  np.testing.assert_array_equal(judged.correct[:, 0], [1, second, 0, 0])
  expected = [right[0] - 1, wrong - 1, -1, -1]
  np.testing.assert_array_equal(judged.answer_ids[:, 0], expected)
  answered = judged.components["answered"][:, 0]
  np.testing.assert_array_equal(answered, [1, 1, 0, 0])
  np.testing.assert_array_equal(judged.scores, judged.correct)


def test_demonstrations_state_positions():
  """A demonstration with the right value has the right position."""
  completions, lengths = TASK.demonstrate(jax.random.key(1), PROBLEMS)
  judged = TASK.score(
    PROBLEMS, completions[:, None], lengths[:, None], lengths[:, None] > 0
  )
  assert judged.components["answered"].all()
  assert 0.6 < judged.correct.mean() < 1


def test_second_answers_follow_the_thoughts_under_the_new_order():
  """One sample answers, one is cut in its thought, one says nothing else."""
  texts = ["+ 3 7 ; ANS 2", "+ 3 7", "ANS 1"]
  problems = jax.tree.map(lambda x: x[:2], PROBLEMS)
  completions = np.zeros((2, 3, TASK.completion_length), np.int32)
  lengths = np.zeros((2, 3), np.int32)
  for s, text in enumerate(texts):
    ids = TASK.completion_ids(text)[: 3 if s == 1 else None]
    completions[:, s, : len(ids)], lengths[:, s] = ids, len(ids)
  judged = TASK.score(problems, jnp.array(completions), lengths, lengths > 0)
  np.testing.assert_array_equal(judged.extras[choice.ORDERS], ORDER[:2])
  view = judged.views[choice.VIEW]
  thoughts = ["+ 3 7 ; ", "+ 3 7 ", ""]
  for p in range(2):
    prompt = TASK.decode(view.prompts[p])
    start = TASK.decode(problems.prompts[p]).partition("= ")[0]
    shuffled = " ".join(str(SHOWN[p, first]) for first in ORDER[p])
    assert prompt == f"{start}= {shuffled}"
    written = [TASK.decode(row) for row in view.completions[p]]
    assert written == [f"{x}ANS {j} <eos>" for x in thoughts for j in (1, 2, 3)]
    scored = view.completions[p][view.mask[p]] - rules.DIGIT
    assert scored.tolist() == [1, 2, 3] * 3


@pytest.mark.parametrize("options", [1, 10])
def test_numbers_of_options(options):
  with pytest.raises(ValueError, match=rf"options={options} must be from 2"):
    tasks.get("choice", options=options)
