"""Files of demonstrations and preferences: what is read, and what refused."""

import dataclasses
import json
import types as python

import jax
import numpy as np
import pytest
from etils import epath
from helpers import small_jsonl

from experiments import tasks
from experiments.training import training_texts

TASK = tasks.get("countdown", count=2)
PAIR = ("chosen", "rejected")


def write(folder, lines):
  path = epath.Path(folder) / "lines.jsonl"
  path.write_text(
    "".join(
      (line if isinstance(line, str) else json.dumps(line)) + "\n"
      for line in lines
    )
  )
  return path


def pair(prompt="1 2 = d0 d3", chosen="1 + 2", rejected="2 * 1", **more):
  return {"prompt": prompt, "chosen": chosen, "rejected": rejected, **more}


def test_words_are_tokens_and_a_completion_ends_with_eos(tmp_path):
  file = write(
    tmp_path, [pair(note="ignored"), pair("3 4 = d0 d7", "4 <eos>", "3 +")]
  )
  texts = training_texts.read(file, TASK, PAIR)
  rows = np.array([1, 0])
  problems = texts.problems(rows)
  assert TASK.prompt_texts(problems) == ["3 4 = d0 d7", "1 2 = d0 d3"]
  decoded = [[TASK.decode(ids) for ids in row] for row in texts.completions]
  assert decoded == [
    ["1 + 2 <eos>", "2 * 1 <eos>"],
    ["4 <eos>", "3 + <eos>"],
  ]
  np.testing.assert_array_equal(texts.lengths, [[4, 4], [2, 3]])
  assert texts.completions.shape == (2, 2, TASK.completion_length)
  assert len(set(texts.ids)) == 2


def test_lines_that_are_too_long_are_left_out_and_counted(tmp_path):
  long = "1 + 2 + 3"
  file = write(
    tmp_path, [pair(rejected=long), pair(), pair(prompt=f"{long} + 4"), pair()]
  )
  texts = training_texts.read(file, TASK, PAIR)
  assert texts.note == "lines.jsonl: 2 lines, 2 too long and left out"
  assert texts.ids.tolist() == [0, 0]  # the same prompt
  with pytest.raises(ValueError, match=r"no line of lines.jsonl fits into"):
    training_texts.read(
      write(tmp_path, [pair(prompt=f"{long} + 4")]), TASK, PAIR
    )


def test_pairs_that_contradict_each_other_are_counted(tmp_path):
  """1 + 2 over 2 * 1, and twice the reverse; the same on another prompt."""
  other = "2 2 = d0 d3"
  file = write(
    tmp_path,
    [
      pair(),
      pair(chosen="2 * 1", rejected="1 + 2"),
      pair(chosen="2 * 1", rejected="1 + 2"),
      pair(chosen="2 * 1", rejected="3 * 1"),
      pair(other, chosen="2 * 1", rejected="1 + 3"),
    ],
  )
  texts = training_texts.read(file, TASK, PAIR)
  assert texts.note.endswith("out; 3 prefer what another one rejects")


@pytest.mark.parametrize(
  ("line", "message"),
  [
    ({"prompt": "1 2 = d0 d3", "chosen": "1"}, "no text under 'rejected'"),
    (pair(chosen=" "), "no text under 'chosen'"),
    (pair(prompt=3), "no text under 'prompt'"),
    (pair(rejected="1 + 2"), "'chosen' and 'rejected' are the same text"),
    (pair(rejected="1 + d"), "unknown token 'd'; did you mean 'd9'"),
    ("{", "is not JSON"),
  ],
)
def test_a_wrong_line_is_named(line, message, tmp_path):
  file = write(tmp_path, [pair(), line])
  with pytest.raises(ValueError, match=f"lines.jsonl line 2.*{message}"):
    training_texts.read(file, TASK, PAIR)


def test_an_epoch_has_each_line_once_and_its_own_order(tmp_path):
  numbers = [f"{n} 1" for n in range(1, 9)]
  file = write(tmp_path, [pair(prompt=n) for n in numbers])
  texts = training_texts.read(file, TASK, PAIR)
  key = jax.random.key(0)
  steps = [texts.rows(key, step, 4).tolist() for step in range(4)]
  epochs = [steps[0] + steps[1], steps[2] + steps[3]]
  assert [sorted(epoch) for epoch in epochs] == [list(range(8))] * 2
  assert epochs[0] != epochs[1]
  # A resumed run gets the lines that it would have got.
  assert texts.rows(key, 2, 4).tolist() == steps[2]
  assert texts.rows(jax.random.key(1), 2, 4).tolist() != steps[2]


def test_a_text_task_encodes_prompts_and_completions(tmp_path):
  """Written by hand from the problems of the task, they are those of it."""
  task = tasks.get(
    "jsonl",
    file=str(small_jsonl.write(tmp_path)),
    cache=str(tmp_path / "cache"),
    vocab_size=300,
    prompt_length=32,
    completion_length=16,
  )
  problems = task.train(jax.random.key(0), 0, 3)
  completions, lengths = task.demonstrate(None, problems)
  answers = [
    task.decode(ids[: length - 1])
    for ids, length in zip(completions, lengths, strict=True)
  ]
  prompts = task.prompt_texts(problems)
  assert prompts[0].startswith("Name pear ")
  file = write(
    tmp_path,
    [
      {"prompt": prompt, "solution": answer}
      for prompt, answer in zip(prompts, answers, strict=True)
    ],
  )
  texts = training_texts.read(file, task, ("solution",))
  np.testing.assert_array_equal(texts.prompts, problems.prompts)
  np.testing.assert_array_equal(texts.prompt_mask, problems.prompt_mask)
  np.testing.assert_array_equal(texts.completions[:, 0], completions)
  np.testing.assert_array_equal(texts.lengths[:, 0], lengths)


@pytest.mark.parametrize("line", [("18", "3", "4"), ("2", "3", "18")])
def test_a_token_beyond_the_vocabulary_is_named(tmp_path, line):
  """In a prompt or in a completion; a text has the ids of its tokens."""

  def task(vocab_size):
    def to_ids(text):
      return list(map(int, text.split()))

    return python.SimpleNamespace(
      name="numbers",
      vocab_size=vocab_size,
      prompt_length=3,
      completion_length=3,
      pad_id=0,
      prompt_ids=to_ids,
      completion_ids=to_ids,
      decode=str,
    )

  file = write(tmp_path, [pair(*line)])
  with pytest.raises(ValueError, match="has the id 18, but numbers has 18 tok"):
    training_texts.read(file, task(18), PAIR)
  assert len(training_texts.read(file, task(19), PAIR)) == 1


def test_texts_that_fill_their_places_are_kept(tmp_path):
  """A prompt of 5 tokens, and completions of 4 with EOS."""
  assert (TASK.prompt_length, TASK.completion_length) == (5, 4)
  full = pair("1 2 = d0 d3", "1 + 2", "2 - 1")
  lines = [full, pair("1 2 = d0 d3 d3"), pair(chosen="1 + 2 3")]
  texts = training_texts.read(write(tmp_path, lines), TASK, PAIR)
  assert len(texts) == 1
  assert texts.prompt_mask.all()
  assert texts.lengths.tolist() == [[4, 4]]


def test_texts_are_themselves_alone_and_cannot_be_changed(tmp_path):
  """A compiled function takes them as one constant."""
  file = write(tmp_path, [pair()])
  one, two = (training_texts.read(file, TASK, PAIR) for _ in range(2))
  assert len({one, two, one}) == 2
  with pytest.raises(dataclasses.FrozenInstanceError):
    one.note = "another"
