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


SCORE = jax.jit(TASK.score)


def chain_id(text):
  """Returns the id of the problem of `chain` with two operations."""
  start, *words = text.removesuffix(" =").split()
  a, b = (10 * "+-*".index(x) + int(d) for x, d in (words[:2], words[2:]))
  return 900 * int(start) + 30 * a + b


def score(texts):
  """Judges one completion of each of the first problems."""
  count = len(texts)
  problems = jax.tree.map(lambda x: x[:count], PROBLEMS)
  completions = np.zeros((count, 1, TASK.completion_length), np.int32)
  lengths = np.zeros((count, 1), np.int32)
  for row, text in enumerate(texts):
    ids = TASK.completion_ids(text)
    completions[row, 0, : len(ids)], lengths[row] = ids, len(ids)
  return SCORE(problems, jnp.array(completions), lengths, lengths > 0)


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


def test_gold_states_the_position_of_the_result():
  completions, lengths = jax.jit(TASK.gold)(PROBLEMS)
  at = np.asarray(lengths) - 2  # the end token follows
  positions = np.asarray(completions)[np.arange(64), at] - rules.DIGIT
  np.testing.assert_array_equal(SHOWN[np.arange(64), positions - 1], TRUTH)


def test_demonstrations_state_positions():
  """A demonstration with the right value has the right position."""
  completions, lengths = jax.jit(TASK.demonstrate)(jax.random.key(1), PROBLEMS)
  judged = SCORE(
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
  judged = SCORE(problems, jnp.array(completions), lengths, lengths > 0)
  np.testing.assert_array_equal(
    judged.extras[choice.ORDERS], np.repeat(ORDER[:2, None], 3, 1)
  )
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


@pytest.mark.parametrize(("options", "nearest"), [(0, 2), (1, 2), (10, 9)])
def test_numbers_of_options(options, nearest):
  message = rf"options={options} must be from 2 to 9; the nearest is {nearest}$"
  with pytest.raises(ValueError, match=message):
    tasks.get("choice", options=options)


def test_sizes_and_names_follow_from_the_settings():
  task = tasks.get("choice")
  assert task.name == "choice(operations=3, options=4)"
  assert (task.prompt_length, task.completion_length) == (12, 28)
  assert PROBLEMS.prompts.shape == PROBLEMS.prompt_mask.shape == (64, 9)
  assert PROBLEMS.prompt_mask.all()
  assert tasks.get("choice", options=2).prompt_length == 10
  assert tasks.get("choice", options=9).prompt_length == 17


def test_options_are_drawn_from_the_digits_after_the_result():
  """The random numbers of a problem come from its id."""

  @jax.jit
  @jax.vmap
  def draw(i):
    key = jax.random.fold_in(jax.random.key(0), i)
    keys = jax.random.split(key, 3)
    sizes = (9, 3, 3)
    return [
      jax.random.permutation(key, n) for key, n in zip(keys, sizes, strict=True)
    ]

  draws = map(np.asarray, draw(PROBLEMS.ids))
  for *row, shown, order, truth in zip(
    *draws, SHOWN, ORDER, TRUTH, strict=True
  ):
    wrong, place, expected_order = row
    others = [(truth + 1 + i) % 10 for i in wrong]
    digits = [truth, *others[1:3]]
    np.testing.assert_array_equal(shown, [digits[i] for i in place])
    np.testing.assert_array_equal(order, expected_order)


def test_each_position_is_judged():
  """The options are 7, 4 and 9; the results are 4 and 7."""
  ids = [chain_id("4 + 3 * 2 ="), chain_id("4 + 3 * 1 =")]
  base = choice.chains._problems(np.array(ids), 2)
  facts = {
    **base.facts,
    "options": np.array([[7, 4, 9]] * 2),
    "order": np.array([[2, 0, 1]] * 2),
  }
  problems = base.replace(
    prompts=choice._with_digits(base.prompts, facts["options"]), facts=facts
  )
  texts = [f"ANS {i}" for i in range(5)] + ["4"]
  rows = [TASK.completion_ids(text) for text in texts]
  completions = np.zeros((2, 6, TASK.completion_length), np.int32)
  lengths = np.array([[3] * 5 + [2]] * 2)
  for s, ids in enumerate(rows):
    completions[:, s, : len(ids)] = ids
  judged = SCORE(problems, completions, lengths, lengths > 0)
  np.testing.assert_array_equal(
    judged.correct, [[0, 0, 1, 0, 0, 0], [0, 1, 0, 0, 0, 0]]
  )
  np.testing.assert_array_equal(judged.scores, judged.correct)
  np.testing.assert_array_equal(judged.answer_ids, [[-1, 0, 1, 2, -1, -1]] * 2)
  np.testing.assert_array_equal(
    judged.components["answered"], [[0, 1, 1, 1, 0, 0]] * 2
  )
  view = judged.views[choice.VIEW]
  prompts = [TASK.decode(row) for row in np.asarray(view.prompts)]
  assert prompts == ["4 + 3 * 2 = 9 7 4", "4 + 3 * 1 = 9 7 4"]


def test_values_become_positions_in_demonstrations():
  """A value that is no option has its remainder by the number of options."""
  cases = {
    "+ 3 7 ; ANS 7 <eos>": "+ 3 7 ; ANS 1 <eos>",
    "+ 3 9 ; ANS 9 <eos>": "+ 3 9 ; ANS 3 <eos>",
    "ANS 4 4 <eos>": "ANS 2 4 <eos>",
    "ANS 0 <eos>": "ANS 1 <eos>",  # 0 = 0 3 + 0
    "ANS 5 <eos>": "ANS 3 <eos>",  # 5 = 1 3 + 2
    "ANS 1 <eos>": "ANS 2 <eos>",
    "ANS <eos>": "ANS <eos>",
  }
  rows = [TASK._word_ids(text) for text in cases]
  completions = np.zeros((len(rows), 8), np.int32)
  for row, ids in zip(completions, rows, strict=True):
    row[: len(ids)] = ids
  shown = np.array([[7, 4, 9]] * len(rows))
  changed = jax.jit(choice._answer_by_position)(completions, shown)
  texts = [TASK.decode(row) for row in np.asarray(changed)]
  assert texts == list(cases.values())
  # Each row has its own options.
  ids = np.array([TASK._word_ids("ANS 8 <eos>")] * 2)
  changed = choice._answer_by_position(ids, np.array([[8, 1], [1, 8]]))
  np.testing.assert_array_equal(changed[:, 1] - rules.DIGIT, [1, 2])
