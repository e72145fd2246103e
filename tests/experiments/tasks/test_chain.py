"""Chained arithmetic by hand: problems, solutions with errors, and views."""

import string

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from experiments import tasks
from experiments.tasks import chain as chains
from experiments.tasks import numbered_problems
from rewards.tasks import chain as rules

fast = compiled.functions(chains)


def number(text):
  """Returns the id of the problem with a prompt such as "4 + 3 * 2 ="."""
  start, *words = text.removesuffix(" =").split()
  value = int(start)
  for operator, operand in zip(words[::2], words[1::2], strict=True):
    value = 30 * value + 10 * "+-*".index(operator) + int(operand)
  return value


def problems_of(*texts):
  """Returns the problems with these prompts, which have the same length."""
  ids = np.array([number(text) for text in texts], np.int32)
  return chains._problems(ids, (len(texts[0].split()) - 2) // 2)


def tokens(texts, length):
  """Returns texts as token ids `[N, length]`, and their lengths `[N]`."""
  words = ["<pad>", "<eos>", "=", ";", "ANS", "+", "-", "*", *string.digits]
  rows = [[words.index(word) for word in text.split()] for text in texts]
  ids = np.zeros((len(rows), length), np.int32)
  for row, some in zip(ids, rows, strict=True):
    row[: len(some)] = some
  return ids, np.array([len(row) for row in rows], np.int32)


def test_every_token_has_its_word():
  words = "<eos> = ; ANS + - * 0 1 2 3 4 5 6 7 8 9"
  assert chains.decode(np.arange(1, rules.VOCAB_SIZE)) == words
  assert chains.decode([0, 0, 8, 4, 0]) == "0 ANS"
  with pytest.raises(IndexError):
    chains.decode([rules.VOCAB_SIZE])


def test_the_digits_of_an_id_are_the_prompt():
  texts = ["4 + 3 * 2 - 9 =", "0 - 0 + 7 * 8 ="]
  # 4, 0 10 + 3, 2 10 + 2 and 10 + 9 as digits in base 30.
  assert number(texts[0]) == 4 * 27000 + 3 * 900 + 22 * 30 + 19
  problems = problems_of(*texts)
  ids, _ = tokens(texts, 8)
  np.testing.assert_array_equal(problems.prompts, ids)
  assert problems.prompt_mask.all()
  assert problems.prompt_mask.shape == (2, 8)
  np.testing.assert_array_equal(problems.ids, [number(text) for text in texts])
  np.testing.assert_array_equal(problems.facts["start"], [4, 0])
  np.testing.assert_array_equal(
    problems.facts["operators"], [[0, 2, 1], [1, 0, 2]]
  )
  np.testing.assert_array_equal(
    problems.facts["operands"], [[3, 2, 9], [0, 7, 8]]
  )


def test_sizes_and_names_follow_from_the_settings():
  assert tasks.get("chain").name == "chain(operations=3, prm=clean)"
  task = tasks.get("chain", operations=1, reference=True, reworded=True)
  assert task.name == "chain(operations=1, prm=clean, reference=True, " + (
    "reworded=True)"
  )
  assert (task.prompt_length, task.completion_length) == (4, 12)
  # 3 * 10 operations on 10 digits are 300 problems: 0, 7, ..., 294 are held
  # out.
  with pytest.raises(ValueError, match=r"chain\(operations=1\) has 43; ask"):
    task.test(44)
  task = tasks.get("chain", operations=2)
  assert (task.prompt_length, task.completion_length) == (6, 20)
  problems = task.train(jax.random.key(0), 0, 200)
  assert set(np.asarray(problems.facts["start"]).tolist()) == set(range(10))
  expected = numbered_problems.test_ids(5, 9000, "this")
  np.testing.assert_array_equal(task.test(5).ids, expected)
  assert problems.ids.max() < 9000
  for operations, nearest in ((0, 1), (6, 5), (9, 5)):
    with pytest.raises(ValueError, match=f"1 to 5, the nearest is {nearest}"):
      tasks.get("chain", operations=operations)


def test_the_other_wording_exchanges_the_first_operands():
  """Unless the first operation subtracts, or the other wording is held out."""
  rng = np.random.default_rng(0)
  ids = rng.choice(27 * 10**4, 400, replace=False).astype(np.int32)
  ids[0], ids[1] = number("4 - 3 + 2 - 5 ="), number("4 + 3 - 2 - 5 =")
  others = np.asarray(fast._other_wording(ids, 3)).tolist()
  prompts = [
    chains.decode(row) for row in np.asarray(chains._problems(ids, 3).prompts)
  ]
  exchanged = 0
  for i, other, text in zip(ids.tolist(), others, prompts, strict=True):
    start, operator, operand, *rest = text.split()
    swapped = number(" ".join([operand, operator, start, *rest]))
    is_swapped = operator in "+*" and swapped % 7 != 0
    assert other == (swapped if is_swapped else i)
    exchanged += is_swapped and swapped != i
  assert exchanged > 100


@pytest.mark.parametrize("n", [2, 6])
def test_any_even_number_of_problems_has_pairs_of_wordings(n):
  task = tasks.get("chain", operations=1, reworded=True)
  key = jax.random.key(0)
  alone = tasks.get("chain", operations=1).train(key, 0, n // 2)
  pairs = np.asarray(task.train(key, 0, n).ids).reshape(-1, 2)
  np.testing.assert_array_equal(pairs[:, 0], alone.ids)
  others = chains._other_wording(alone.ids, 1)
  np.testing.assert_array_equal(pairs[:, 1], others)


def test_a_thought_ends_at_the_first_answer_or_end_token():
  texts = [
    ["+ 3 7 ; ANS 4 <eos>", "+ 3 <eos> ANS 4", "+ 3 7"],
    ["ANS 4 <eos>", "+ ANS + ANS <eos>", "7 7 7 7 7 7"],
  ]
  ids, lengths = tokens([*texts[0], *texts[1]], 8)
  ids, lengths = ids.reshape(2, 3, 8), lengths.reshape(2, 3)
  lengths[1, 1] = 1  # its ANS follows its last token
  ends = fast.lengths_of_thoughts(ids, lengths)
  np.testing.assert_array_equal(ends, [[4, 2, 3], [0, 1, 6]])
  ids[1, 1, 1] = ids[1, 1, 3] = 5
  lengths[1, 1] = 3  # its EOS follows its last token
  ends = fast.lengths_of_thoughts(ids, lengths)
  np.testing.assert_array_equal(ends, [[4, 2, 3], [0, 3, 6]])


def texts_of(view):
  """Returns the texts of a view, and those of its tokens under the mask."""
  rows = zip(
    *(np.asarray(x) for x in (view.completions, view.lengths, view.mask)),
    strict=True,
  )
  texts, masked = [], []
  for group in rows:
    for ids, length, mask in zip(*group, strict=True):
      assert not ids[length:].any()  # padding
      texts.append(chains.decode(ids))
      masked.append(chains.decode(ids[mask]))
  return texts, masked


def test_the_right_answer_follows_each_part_of_a_sample():
  task = tasks.get("chain", operations=2, reference=True)
  problems = problems_of("4 + 3 * 2 =", "5 - 5 + 0 =")  # 4 and 0
  texts = [
    *("+ 3 7 ; * 2 4 ; ANS 4 <eos>", "ANS 0 <eos>", "+ 3 7 ; * 2"),
    *("; ; ; ; ; ANS 5 <eos>", "- 5 0", "<eos>"),
  ]
  ids, lengths = tokens(texts, 20)
  ids, lengths = ids.reshape(2, 3, 20), lengths.reshape(2, 3)
  judged = jax.jit(task.score)(problems, ids, lengths, lengths > 0)
  np.testing.assert_array_equal(judged.correct, [[1, 0, 0], [0, 0, 0]])
  np.testing.assert_array_equal(
    judged.components["answered"], [[1, 1, 0], [1, 0, 0]]
  )
  answers = ["ANS 4 <eos>", "ANS 0 <eos>"]
  parts = [
    # The first 1, 2, 3 and 4 steps of each sample, before its answer.
    ["+ 3 7 ;", *["+ 3 7 ; * 2 4 ;"] * 3],
    [""] * 4,
    ["+ 3 7 ;", *["+ 3 7 ; * 2"] * 3],
    [";", "; ;", "; ; ;", "; ; ; ;"],
    ["- 5 0"] * 4,
    [""] * 4,
  ]
  wholes = [*("+ 3 7 ; * 2 4 ;", "", "+ 3 7 ; * 2"), "; ; ; ; ;", "- 5 0", ""]
  for name, thoughts, shape in (
    ("reference", [[thought] for thought in wholes], (2, 3, 23)),
    ("bare_reference", [[""], [""]], (2, 1, 3)),
    ("step_references", parts, (2, 12, 23)),
  ):
    view = judged.views[name]
    assert view.completions.shape == view.mask.shape == shape
    assert view.completions.dtype == view.lengths.dtype == jnp.int32
    np.testing.assert_array_equal(view.prompts, problems.prompts)
    written, masked = texts_of(view)
    half = len(thoughts) // 2
    expected = [
      f"{thought} {answers[i >= half]}".strip()
      for i, some in enumerate(thoughts)
      for thought in some
    ]
    assert written == expected
    rows = len(expected) // 2
    assert masked == [answers[i >= rows] for i in range(2 * rows)]


def write(problems, slips, fillers, early, length=20):
  """Returns the texts of written solutions; checks lengths and padding."""
  arrays = (np.array(slips, np.int32), np.array(fillers), np.array(early))
  ids, lengths = fast._write(
    problems, *arrays[:1], *(x.astype(bool) for x in arrays[1:]), length
  )
  assert ids.shape == (len(slips), length)
  assert ids.dtype == lengths.dtype == jnp.int32
  at = np.arange(length)
  np.testing.assert_array_equal(ids != 0, at < np.asarray(lengths)[:, None])
  return [chains.decode(row) for row in np.asarray(ids)]


def test_solutions_have_the_errors_that_are_asked_for():
  problems = problems_of(*["4 + 3 * 2 ="] * 7)
  none = [0, 0]
  texts = write(
    problems,
    slips=[none, [9, 0], [0, 5], none, none, none, [1, 1]],
    fillers=[none, none, none, [1, 1], [1, 1], [0, 1], [1, 0]],
    early=[none, none, none, none, [0, 1], [1, 0], none],
  )
  assert texts == [
    "+ 3 7 ; * 2 4 ; ANS 4 <eos>",
    "+ 3 6 ; * 2 2 ; ANS 2 <eos>",
    "+ 3 7 ; * 2 9 ; ANS 9 <eos>",
    "+ 0 4 ; + 3 7 ; + 0 7 ; * 2 4 ; ANS 4 <eos>",
    "+ 0 4 ; + 3 7 ; ANS 7 <eos>",
    "ANS 4 <eos>",
    "+ 0 4 ; + 3 8 ; * 2 7 ; ANS 7 <eos>",
  ]


def test_gold_has_no_errors():
  task = tasks.get("chain", operations=2)
  problems = problems_of("4 + 3 * 2 =", "1 - 3 + 9 =")
  ids, lengths = jax.jit(task.gold)(problems)
  assert [chains.decode(row) for row in np.asarray(ids)] == [
    "+ 3 7 ; * 2 4 ; ANS 4 <eos>",
    "- 3 8 ; + 9 7 ; ANS 7 <eos>",
  ]
  np.testing.assert_array_equal(lengths, [11, 11])


def test_errors_of_demonstrations_come_at_their_rates(monkeypatch):
  """8, 5 and 3 % per operation; four standard deviations."""
  task = tasks.get("chain", operations=5)
  problems = chains._problems(np.arange(3000, dtype=np.int32), 5)
  errors = []

  def record(problems, slips, fillers, early, length):
    errors.extend(np.asarray(x) for x in (slips, fillers, early))
    return length

  monkeypatch.setattr(chains, "_write", record)
  assert task.demonstrate(jax.random.key(0), problems) == 44
  slips, fillers, early = errors
  for error, rate in ((slips != 0, 0.08), (fillers, 0.05), (early, 0.03)):
    assert error.shape == (3000, 5)
    sigma = (rate * (1 - rate) / error.size) ** 0.5
    assert abs(error.mean() - rate) < 4 * sigma
  # A wrong result is off by 1 to 9, each about equally often.
  counts = np.bincount(slips[slips != 0])
  assert len(counts) == 10
  mean = counts.sum() / 9
  assert (abs(counts[1:] - mean) < 4 * mean**0.5).all()
  # The errors are independent: 8 % of 5 % of the operations have both.
  both = ((slips != 0) & fillers).mean()
  assert abs(both - 0.004) < 4 * (0.004 / slips.size) ** 0.5
