"""Chained arithmetic with thoughts in words, which are not judged."""

import jax
import jax.numpy as jnp
import numpy as np

from experiments import tasks
from experiments.tasks import narrated_chain

TASK = tasks.get("narrated_chain", operations=2)
PROBLEMS = TASK.train(jax.random.key(0), 0, 256)

SCORE = jax.jit(TASK.score)


def score(problems, texts):
  """Judges one completion of each of the problems."""
  completions = np.zeros((len(texts), 1, TASK.completion_length), np.int32)
  lengths = np.zeros((len(texts), 1), np.int32)
  for row, text in enumerate(texts):
    ids = [TASK._id_by_word[word] for word in text.split()]
    completions[row, 0, : len(ids)], lengths[row] = ids, len(ids)
  problems = jax.tree.map(lambda x: jnp.repeat(x[:1], len(texts), 0), problems)
  return SCORE(problems, jnp.array(completions), lengths, lengths > 0)


def problem(text):
  """Returns the problem with a prompt, as the first of a batch."""
  rows = [TASK.decode(ids) == text for ids in np.asarray(PROBLEMS.prompts)]
  return jax.tree.map(lambda x: x[np.flatnonzero(rows)], PROBLEMS)


PROMPT = TASK.decode(np.asarray(PROBLEMS.prompts)[0])
START, FIRST, D1, SECOND, D2 = PROMPT.split()[:5]


def right_solution():
  """Returns the tokens of a right solution of the first problem."""
  completions, lengths = TASK.gold(problem(PROMPT))
  return TASK.decode(np.asarray(completions)[0, : lengths[0]]).split()


def test_a_solution_says_each_step_in_words():
  words = right_solution()
  names = {"+": "add", "-": "subtract", "*": "multiply"}
  numbers = (
    *("zero", "one", "two", "three", "four"),
    *("five", "six", "seven", "eight", "nine"),
  )
  for start, operator, digit in ((0, FIRST, D1), (6, SECOND, D2)):
    assert words[start : start + 4] == [
      *(names[operator], numbers[int(digit)], operator, digit)
    ]
    assert words[start + 5] == ";"
  assert words[12:14] == ["so", "ANS"]
  assert words[15:] == ["<eos>"]


def test_words_are_not_judged():
  words = right_solution()
  right = " ".join(words)
  bare = " ".join(w for w in words if not w.isalpha() or w == "ANS")
  other = right.replace("so", "nine add so")
  wrong = bare.replace("ANS", "ANS ANS")
  judged = score(problem(PROMPT), [right, bare, other, wrong])
  np.testing.assert_array_equal(judged.correct[:, 0], [1, 1, 1, 0])
  for row in range(3):
    np.testing.assert_array_equal(judged.step_scores[row, 0, :4], [1, 1, 1, 0])
    np.testing.assert_array_equal(
      judged.step_mask[row, 0, :4], [True, True, True, False]
    )


def test_a_word_belongs_to_the_maths_after_it():
  words = right_solution()
  late = [*words[:12], "nine", "nine"]  # no maths follows
  judged = score(problem(PROMPT), [" ".join(words), " ".join(late)])
  ids = np.asarray(judged.step_ids)[:, 0]
  np.testing.assert_array_equal(
    ids[0, :17], np.repeat([0, 1, 2, -1], [6, 6, 4, 1])
  )
  np.testing.assert_array_equal(ids[1, :15], np.repeat([0, 1, -1], [6, 8, 1]))


def test_sizes_and_names_follow_from_the_settings():
  assert tasks.get("narrated_chain").name == (
    "narrated_chain(operations=3, prm=clean)"
  )
  assert TASK.completion_length == 29  # 12 N + 5
  # The words have the tokens after the 18 ones of `chain`.
  assert TASK.word_ids == tuple(range(18, 32))
  assert TASK.vocab_size == 32
  assert TASK.decode(np.array([18, 20, 21, 30, 31, 0])) == (
    "add multiply zero nine so"
  )


def test_thoughts_name_the_operation_and_a_number():
  texts = ["+ 3 7 ; * 2 4 ; ANS 4 <eos>", "- 9 5 ; ANS 5 <eos>"]
  completions = np.zeros((2, 20), np.int32)
  slips = np.full((2, 20), 9, np.int32)  # read at operators alone
  for row, text in zip(completions, texts, strict=True):
    ids = TASK._word_ids(text)
    row[: len(ids)] = ids
  slips[0, 0], slips[0, 4], slips[1, 0] = 0, 9, 2
  lengths = np.array([11, 7])
  narrate = jax.jit(narrated_chain._narrate, static_argnums=3)
  ids, new_lengths = narrate(completions, lengths, slips, 29)
  assert [TASK.decode(row) for row in np.asarray(ids)] == [
    # 2 + 9 = 11, and 9 + 2 = 11, are one.
    "add three + 3 7 ; multiply one * 2 4 ; so ANS 4 <eos>",
    "subtract one - 9 5 ; so ANS 5 <eos>",
  ]
  assert ids.shape == (2, 29)
  assert ids.dtype == new_lengths.dtype == np.int32
  np.testing.assert_array_equal(new_lengths, [16, 10])
  # Tokens after the length are left out.
  _, shorter = narrate(completions, lengths - 3, slips, 29)
  np.testing.assert_array_equal(shorter, [12, 6])


def test_slips_are_from_1_to_9_at_a_rate_of_a_tenth(monkeypatch):
  """Four standard deviations."""
  slips = []

  def record(completions, lengths, slip, length):
    slips.append(np.asarray(slip))

  monkeypatch.setattr(narrated_chain, "_narrate", record)
  TASK.demonstrate(jax.random.key(0), PROBLEMS)
  (slips,) = slips
  assert slips.shape == (256, 20)
  assert abs((slips != 0).mean() - 0.1) < 4 * (0.09 / slips.size) ** 0.5
  counts = np.bincount(slips[slips != 0])
  assert len(counts) == 10
  mean = counts.sum() / 9
  assert (abs(counts[1:] - mean) < 4 * mean**0.5).all()


def test_completions_with_few_tokens_have_their_steps():
  """One word, one symbol, nothing, and words around a symbol of its own."""
  texts = ["so", "+", "", "add + 3 7 ; + so so"]
  judged = score(problem(PROMPT), texts)
  ids = np.asarray(judged.step_ids)[:, 0]
  np.testing.assert_array_equal(ids[:, 0], [0, 0, -1, 0])
  assert (ids[:3, 1:] == -1).all()
  np.testing.assert_array_equal(ids[3, :10], [0] * 5 + [1] * 3 + [-1] * 2)
  mask = np.asarray(judged.step_mask)[:, 0]
  np.testing.assert_array_equal(mask.sum(-1), [1, 1, 0, 2])
  scores = np.asarray(judged.step_scores)[:, 0]
  np.testing.assert_array_equal(scores[:3, 0], [-1, -1, 0])
  np.testing.assert_array_equal(np.abs(scores), mask)


def test_words_alone_are_one_wrong_step():
  judged = score(problem(PROMPT), ["add nine so"])
  np.testing.assert_array_equal(judged.step_mask[0, 0, :2], [True, False])
  np.testing.assert_array_equal(judged.step_scores[0, 0, :2], [-1, 0])
  np.testing.assert_array_equal(judged.step_ids[0, 0, :4], [0, 0, 0, -1])
  assert judged.correct.item() == 0


def test_a_tenth_of_the_thoughts_names_a_wrong_number():
  completions, lengths = jax.jit(TASK.demonstrate)(jax.random.key(1), PROBLEMS)
  assert lengths.max() <= TASK.completion_length
  wrong, thoughts = 0, 0
  for row, length in zip(np.asarray(completions), lengths, strict=True):
    words = TASK.decode(row[:length]).split()
    for i, word in enumerate(words):
      if word in ("+", "-", "*"):
        number = words[i - 1]
        digit = int(words[i + 1])
        thoughts += 1
        wrong += TASK._id_by_word[number] - TASK._id_by_word["zero"] != digit
  assert thoughts > 400
  # Three standard deviations of a share of 0.1.
  assert abs(wrong / thoughts - 0.1) < 3 * (0.09 / thoughts) ** 0.5
  judged = SCORE(
    PROBLEMS, completions[:, None], lengths[:, None], lengths[:, None] > 0
  )
  assert 0.6 < judged.correct.mean() < 1
