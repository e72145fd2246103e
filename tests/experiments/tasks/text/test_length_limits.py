"""Prompts and solutions that are too long."""

import json
from unittest import mock

import numpy as np
import pytest

from experiments import tasks
from experiments.tasks.text import length_limits


def test_a_prompt_too_long_is_dropped_cut_or_refused(tmp_path, chat):
  rows = [{"question": "7" * (i + 1), "answer": "#### 7"} for i in range(5)]
  text = "\n".join(map(json.dumps, rows))
  (tmp_path / "gsm8k_test.jsonl").write_text(text)

  def make(**settings):
    return tasks.get(
      "gsm8k",
      folder=str(tmp_path),
      cache=str(tmp_path / "cache"),
      tokenizer=chat,
      instruction="",
      **settings,
    )

  # Prompt i has <|user|>, a token for each of its digits, <|end|> and
  # <|assistant|>.
  uncut, limit = make(prompt_length=8).test(5), 6
  lengths = uncut.prompt_mask.sum(-1)
  assert sorted(lengths) == [4, 5, 6, 7, 8]
  dropped = make(prompt_length=limit)
  for shorter, n in ((limit, 3), (7, 4)):  # the order of the others is the same
    expected = uncut.ids[lengths <= shorter]
    few = make(prompt_length=shorter).test(n)
    np.testing.assert_array_equal(few.ids, expected)
  assert dropped.notes == (
    "gsm8k test: 3 problems, 2 too long and left out",
    "gsm8k: where a reference is not a number, only the same text is right",
  )
  with pytest.raises(ValueError, match="n=4 test problems, but gsm8k has 3"):
    dropped.test(4)
  cut = make(prompt_length=limit, too_long="cut")
  same = cut.test(5)
  np.testing.assert_array_equal(same.ids, uncut.ids)
  np.testing.assert_array_equal(same.prompts, uncut.prompts[:, -limit:])
  assert cut.notes[0].endswith("2 prompts cut to 6 tokens")
  assert (
    make(prompt_length=8, too_long="refuse")
    .notes[0]
    .startswith("gsm8k test: 5 problems, 0 too long")
  )
  message = "2 prompts of gsm8k test are longer than prompt_length=6; .* has 8"
  with pytest.raises(ValueError, match=message):
    make(prompt_length=limit, too_long="refuse")
  with pytest.raises(ValueError, match="'dropp'; did you mean 'drop'"):
    make(too_long="dropp")
  with pytest.raises(ValueError, match="no test problem of gsm8k fits"):
    make(prompt_length=3)


@pytest.mark.parametrize(
  ("split", "limits"),
  [
    ("train", "prompt_length=3 and completion_length=9; "),
    ("test", "prompt_length=3; "),  # held-out solutions are not read
  ],
)
def test_an_empty_split_names_the_lengths_to_change(split, limits):
  options = mock.Mock(prompt_length=3, completion_length=9, too_long="drop")
  prompts, solutions = [[1] * 4, [1] * 2], [[1], [1] * 10]
  indices = np.array([0, 1]) if split == "train" else np.array([0])
  with pytest.raises(ValueError, match=f"no {split} .* fits into {limits}"):
    length_limits.select("numbers", split, indices, prompts, solutions, options)


def test_a_test_problem_may_have_any_solution():
  options = mock.Mock(prompt_length=3, completion_length=9, too_long="drop")
  prompts, solutions = [[1], [1] * 4, [1]], [[1], [1], [1] * 10]
  indices = np.array([2, 1, 0])
  for split, expected in (("train", [0]), ("test", [2, 0])):
    used, note = length_limits.select(
      "numbers", split, indices, prompts, solutions, options
    )
    assert used.tolist() == expected
    left_out = 3 - len(expected)
    assert note == (
      f"numbers {split}: {len(expected)} problems, {left_out} too long and "
      "left out"
    )
