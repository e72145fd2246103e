"""Lines of labelled steps, as they are written and read."""

import itertools
import json

import jax
import numpy as np
import pytest

from experiments import tasks
from experiments.prm import step_lines
from rewards.process import forest
from rewards.process.label_sources import base

TASK = tasks.get("chain", operations=2)


def words(text):
  return TASK.completion_ids(text)[:-1]


def samples_of(texts, problems):
  """Returns the rows of a forest; each text is a list of steps."""
  size = TASK.completion_length
  n = len(texts)
  completions = np.full((n, size), TASK.pad_id, np.int32)
  step_ids = np.full((n, size), -1)
  for i, steps in enumerate(texts):
    ids = [words(step) if step != "END" else [TASK.eos_id] for step in steps]
    flat = list(itertools.chain.from_iterable(ids))
    completions[i, : len(flat)] = flat
    numbers = np.repeat(np.arange(len(steps)), [len(part) for part in ids])
    # The end token belongs to the last step of text.
    step_ids[i, : len(flat)] = np.minimum(
      numbers, len(steps) - 1 - (steps[-1] == "END")
    )
  return forest.Samples(
    problems=np.array(problems),
    correct=np.array([1, 0, -1][:n], np.int8),
    answer_ids=np.full(n, -1),
    completions=completions,
    log_probs=np.zeros((n, size), np.float32),
    lengths=(step_ids >= 0).sum(-1),
    step_ids=step_ids,
    num_steps=step_ids.max(-1) + 1,
    parents=np.full(n, -1),
    num_shared=np.zeros(n, int),
    step_scores=np.zeros((n, size), np.float32),
  )


def test_lines_are_read_as_they_were_written(tmp_path):
  problems = jax.tree.map(np.asarray, TASK.train(jax.random.key(0), 0, 2))
  texts = [
    ["+ 3 7 ;", "* 2 4 ;", "ANS 4", "END"],
    ["+ 3 8 ;", "ANS 8", "END"],
    ["+ 3 7 ;", "* 2"],  # cut by the length limit
  ]
  samples = samples_of(texts, [0, 1, 0])
  labels = base.StepLabels(
    np.array([2, 0, 1]),
    np.array([[1, 0.5, 0], [1, 0.25, 1], [0, 0, 0]], np.float32),
    np.array([[1, 1, 0], [1, 1, 1], [1, 0, 0]], np.float32),
  )
  lines = list(step_lines.make_lines(TASK, problems, samples, labels))
  assert lines[0] == {
    "prompt": TASK.prompt_texts(problems)[0],
    "steps": ["+ 3 7 ;", "* 2"],
    "labels": [1, 0.5],
    "correct": None,
    "finished": False,
  }
  assert lines[1]["steps"] == ["+ 3 7 ;", "* 2 4 ;", "ANS 4"]
  assert lines[2]["labels"] == [0, None]
  assert [line["correct"] for line in lines] == [None, 1, 0]
  file = tmp_path / "labels.jsonl"
  file.write_text("".join(json.dumps(line) + "\n" for line in lines))
  data = step_lines.read(file, TASK, max_steps=4).data
  assert data.tokens.completions.shape == (3, 1, TASK.completion_length)
  assert data.values.shape == data.weights.shape == (3, 1, 4)
  assert data.potentials.shape == data.potential_weights.shape == (3, 1, 4)
  positions = np.arange(TASK.completion_length)
  np.testing.assert_array_equal(
    data.tokens.mask, positions < data.tokens.lengths[..., None]
  )
  rows = [2, 0, 1]
  np.testing.assert_array_equal(
    data.tokens.completions[:, 0], samples.completions[rows]
  )
  np.testing.assert_array_equal(data.step_ids[:, 0], samples.step_ids[rows])
  np.testing.assert_array_equal(
    data.tokens.lengths[:, 0], samples.lengths[rows]
  )
  np.testing.assert_array_equal(
    data.tokens.prompts, problems.prompts[[0, 0, 1]]
  )
  np.testing.assert_array_equal(
    data.tokens.prompt_mask, problems.prompt_mask[[0, 0, 1]]
  )
  np.testing.assert_array_equal(data.values[:, 0, :3], labels.values)
  np.testing.assert_array_equal(data.weights[:, 0, :3], labels.weights)
  assert data.correct[:, 0].tolist() == [-1, 1, 0]
  assert data.problems.tolist() == [0, 0, 1]


def test_a_prompt_that_is_shorter_is_padded_before_it(tmp_path):
  file = tmp_path / "labels.jsonl"
  file.write_text(json.dumps(line(prompt="4 + 3 =")))
  tokens = step_lines.read(file, TASK, 4).data.tokens
  ids = list(TASK.prompt_ids("4 + 3 ="))
  assert tokens.prompts.tolist() == [[TASK.pad_id] * 2 + ids]
  assert tokens.prompt_mask.tolist() == [[False] * 2 + [True] * 4]


def test_potentials_are_written_for_the_steps_of_their_sample():
  problems = jax.tree.map(np.asarray, TASK.train(jax.random.key(0), 0, 2))
  samples = samples_of(
    [["+ 3 7 ;", "ANS 7", "END"], ["+ 3 8 ;", "END"]], [0, 1]
  )
  labels = base.StepLabels(
    np.array([0, 1]), np.eye(2, 3), np.ones((2, 3), np.float32)
  )
  potentials = base.StepLabels(
    np.array([1]), np.array([[0.25, 1, 1]]), np.ones((1, 3), np.float32)
  )
  first, second = step_lines.make_lines(
    TASK, problems, samples, labels, potentials
  )
  assert "potentials" not in first
  assert second["potentials"] == [0.25]


def test_labels_are_written_with_four_digits():
  problems = jax.tree.map(np.asarray, TASK.train(jax.random.key(0), 0, 1))
  samples = samples_of([["+ 3 7 ;", "END"]], [0])
  labels = base.StepLabels(
    np.array([0]), np.array([[1 / 3]]), np.ones((1, 1), np.float32)
  )
  (written,) = step_lines.make_lines(TASK, problems, samples, labels)
  assert written["labels"] == [0.3333]


def test_a_sample_that_cannot_be_read_again_is_left_out():
  """Only the last step may have no text, if an end token follows it."""
  problems = jax.tree.map(np.asarray, TASK.train(jax.random.key(0), 0, 1))
  solution = ["+ 3 7 ;", "* 2 4 ;", "ANS 4"]
  samples = samples_of(
    [solution, [*solution, "END"], ["+ 3 7 ;", "END"]], [0, 0, 0]
  )
  labels = base.StepLabels(
    np.arange(3), np.ones((3, 3)), np.ones((3, 3), np.float32)
  )

  def steps():
    lines = step_lines.make_lines(TASK, problems, samples, labels)
    return [line["steps"] for line in lines]

  assert steps() == [solution, solution, solution[:1]]
  # The end token is a step of its own in the third sample.
  samples.num_steps[2], samples.step_ids[2, 4] = 2, 1
  assert steps() == [solution, solution, ["+ 3 7 ;", ""]]
  # The first sample ends with a step without tokens, and has no end token.
  samples.num_steps[0], samples.step_ids[0, 8:] = 3, -1
  assert steps() == [solution, ["+ 3 7 ;", ""]]
  # The second sample has no tokens in its first step.
  samples.step_ids[1, :4] = 1
  assert steps() == [["+ 3 7 ;", ""]]
  # The third sample is its end token alone.
  samples.num_steps[2], samples.lengths[2] = 1, 1
  samples.completions[2, 0], samples.step_ids[2, 0] = TASK.eos_id, 0
  assert steps() == [[""]]
  # Padding has no text.
  samples.completions[2, 0], samples.completions[2, 1] = (
    TASK.pad_id,
    words("7")[0],
  )
  samples.lengths[2] = 2
  assert steps() == []


def line(**changes):
  first = {"prompt": "4 + 3 * 2 =", "steps": ["+ 3 7 ;"], "labels": [1]}
  return first | changes


def test_steps_beyond_the_largest_number_are_one_step(tmp_path):
  file = tmp_path / "labels.jsonl"
  steps = {"steps": ["+ 3 7 ;", "* 2 4 ;", "ANS 4"], "labels": [1, None, 0.5]}
  file.write_text(json.dumps(line(**steps)))
  data = step_lines.read(file, TASK, max_steps=2).data
  ids = data.step_ids[0, 0]
  assert ids[ids >= 0].tolist() == [0] * 4 + [1] * 7  # with the end token
  assert data.values[0, 0].tolist() == [1, 0.5]
  # An error among them is not hidden by a later step without a label.
  steps["labels"] = [1, 0, None]
  file.write_text(json.dumps(line(**steps)))
  data = step_lines.read(file, TASK, max_steps=2).data
  assert data.values[0, 0].tolist() == [1, 0]
  assert data.weights[0, 0].tolist() == [1, 1]


def test_potentials_are_labels_of_a_second_kind(tmp_path):
  file = tmp_path / "labels.jsonl"
  steps = {"steps": ["+ 3 7 ;", "ANS 7"], "labels": [1, None]}
  file.write_text(json.dumps(line(**steps, potentials=[None, 0.5])))
  data = step_lines.read(file, TASK, max_steps=2).data
  assert data.potentials[0, 0].tolist() == [0, 0.5]
  assert data.potential_weights[0, 0].tolist() == [0, 1]
  assert data.weights[0, 0].tolist() == [1, 0]


def test_categories(tmp_path):
  file = tmp_path / "labels.jsonl"
  file.write_text(json.dumps(line()) + "\n" + json.dumps(line(category="x")))
  categories = step_lines.read(file, TASK, 4).categories
  assert categories == ["", "x"]


def test_long_lines_are_left_out(tmp_path):
  file = tmp_path / "labels.jsonl"
  long = {"steps": ["+ 3 7 ;"] * 20, "labels": [1] * 20}
  file.write_text(json.dumps(line(**long)) + "\n" + json.dumps(line()))
  lines = step_lines.read(file, TASK, 4)
  assert len(lines.data.problems) == 1
  assert lines.left_out == 1
  # A completion may have as many tokens as there is room for.
  long = {"steps": ["+ 3 7 ;"] * 5, "labels": [1] * 5, "finished": False}
  assert TASK.completion_length == 5 * 4
  file.write_text(json.dumps(line(**long)))
  data = step_lines.read(file, TASK, 4).data
  assert data.tokens.lengths.tolist() == [[20]]
  file.write_text(json.dumps(line(**long | {"finished": True})))
  with pytest.raises(ValueError, match="fits into the"):
    step_lines.read(file, TASK, 4)


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"steps": "+ 3 7 ;"}, "must be a list of texts"),
    ({"steps": [], "labels": []}, "is empty"),
    ({"labels": [1, 1]}, "one entry for each of the 1 steps"),
    ({"labels": [2]}, "a label is a number from 0 to 1"),
    ({"labels": [True]}, "a label is a number from 0 to 1"),
    ({"steps": ["+ 3 7 ;", " ", "ANS 7"], "labels": [1] * 3}, "1 has no text"),
    ({"potentials": [1, 1]}, "'potentials' must be a list with one entry"),
    ({"correct": 3}, "'correct' = 3 must be 1, 0 or null"),
    ({"finished": "no"}, "'finished' = 'no' must be true or false"),
    ({"steps": ["+ 3 77 ;"]}, "unknown token '77'"),
    ({"prompt": ""}, "prompt"),
  ],
)
def test_mistakes_name_the_line(changes, message, tmp_path):
  file = tmp_path / "labels.jsonl"
  file.write_text(json.dumps(line()) + "\n" + json.dumps(line(**changes)))
  with pytest.raises(ValueError, match=message) as error:
    step_lines.read(file, TASK, 4)
  assert "labels.jsonl line 2" in str(error.value)
