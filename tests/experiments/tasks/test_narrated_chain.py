"""Chained arithmetic with thoughts in words, which are not judged."""

import jax
import jax.numpy as jnp
import numpy as np

from experiments import tasks

TASK = tasks.get("narrated_chain", operations=2)
PROBLEMS = TASK.train(jax.random.key(0), 0, 256)


def score(problems, texts):
  """Judges one completion of each of the problems."""
  completions = np.zeros((len(texts), 1, TASK.completion_length), np.int32)
  lengths = np.zeros((len(texts), 1), np.int32)
  for row, text in enumerate(texts):
    ids = [TASK._id_by_word[word] for word in text.split()]
    completions[row, 0, : len(ids)], lengths[row] = ids, len(ids)
  problems = jax.tree.map(lambda x: jnp.repeat(x[:1], len(texts), 0), problems)
  return TASK.score(problems, jnp.array(completions), lengths, lengths > 0)


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


def test_words_alone_are_one_wrong_step():
  judged = score(problem(PROMPT), ["add nine so"])
  np.testing.assert_array_equal(judged.step_mask[0, 0, :2], [True, False])
  np.testing.assert_array_equal(judged.step_scores[0, 0, :2], [-1, 0])
  np.testing.assert_array_equal(judged.step_ids[0, 0, :4], [0, 0, 0, -1])
  assert judged.correct.item() == 0


def test_a_tenth_of_the_thoughts_names_a_wrong_number():
  completions, lengths = TASK.demonstrate(jax.random.key(1), PROBLEMS)
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
  judged = TASK.score(
    PROBLEMS, completions[:, None], lengths[:, None], lengths[:, None] > 0
  )
  assert 0.6 < judged.correct.mean() < 1
