"""Lines of training data from samples that are written by hand."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest

from experiments.evaluation import evaluator, training_lines
from experiments.tasks.task import Problems

END = 0
# Of each problem three samples, as token ids, and their verdicts. The last
# sample of the second problem has no end token.
COMPLETIONS = np.array(
  [
    [[4, 5, END], [6, END, 9], [7, END, 9]],
    [[4, END, 9], [4, END, 9], [8, 8, 8]],
    [[5, END, 9], [6, END, 9], [7, END, 9]],
    [[5, END, 9], [6, END, 9], [7, END, 9]],
  ]
)
LENGTHS = np.array([[3, 2, 2], [2, 2, 3], [2, 2, 2], [2, 2, 2]])
FINISHED = np.array([[1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 1, 1]], bool)
CORRECT = np.array([[1, 0, 1], [0, 0, 1], [-1, -1, -1], [0, 1, -1]], np.int8)


def _problems(ids):
  ids = np.array(ids)
  return Problems(
    prompts=ids[:, None],
    prompt_mask=np.ones((len(ids), 1), bool),
    ids=ids,
    facts={},
  )


def _items(problems):
  return [
    SimpleNamespace(
      prompt=f"question {i}", reference=f"answer {i}", meta={"source": int(i)}
    )
    for i in problems.ids
  ]


TASK = SimpleNamespace(
  items=_items,
  prompt_texts=lambda problems: [f"prompt {i}" for i in problems.ids],
  decode=lambda ids: "".join(map(str, ids)),
)
LOADED = SimpleNamespace(
  task=TASK, policy="policy", params="params", sharding="sharding"
)


def _batches(task, policy, params, problems, batch, key, sampling, sharding):
  """Yields the samples above in place of those of a policy."""
  assert (task, policy, params) == (TASK, "policy", "params")
  assert (key, sampling, sharding) == ("key", "sampling", "sharding")
  for start in range(0, len(problems.ids), batch):
    rows = problems.ids[start : start + batch]
    yield evaluator.BatchResult(
      problems=_problems(rows),
      samples=SimpleNamespace(
        completions=COMPLETIONS[rows],
        lengths=LENGTHS[rows],
        finished=FINISHED[rows],
      ),
      arrays={"correct": CORRECT[rows]},
      done=start + len(rows),
    )


def _collect(monkeypatch, ids, **changes):
  monkeypatch.setattr(evaluator, "score_in_batches", _batches)
  done = []
  lines = training_lines.collect(
    *(LOADED, _problems(ids), "key", "sampling"),
    batch=2,
    update=done.append,
    **changes,
  )
  return lines, done


def test_lines_are_those_of_the_samples(monkeypatch):
  """A text has no end token, and a sample that was cut is in no line."""
  lines, done = _collect(monkeypatch, [0, 1, 2, 3])
  assert done == [2, 4]
  assert lines.pairs == [
    {"prompt": "prompt 0", "chosen": "45", "rejected": "6"},
    {"prompt": "prompt 3", "chosen": "6", "rejected": "5"},
  ]
  assert lines.demonstrations == [
    {"prompt": "prompt 0", "solution": "45"},
    {"prompt": "prompt 3", "solution": "6"},
  ]
  labels = [
    (line["question"], line["reference"], line["response"], line["label"])
    for line in lines.responses
  ]
  assert labels == [
    ("question 0", "answer 0", "45", True),
    ("question 0", "answer 0", "7", True),
    ("question 0", "answer 0", "6", False),
    ("question 1", "answer 1", "4", False),
    ("question 3", "answer 3", "6", True),
    ("question 3", "answer 3", "5", False),
  ]
  rates = {0: 2 / 3, 1: 1 / 3, 3: 1 / 2}  # of samples with a verdict
  assert lines.problems == [
    {
      "source": i,
      "prompt": f"question {i}",
      "answer": f"answer {i}",
      "pass_rate": rate,
    }
    for i, rate in rates.items()
  ]
  assert lines.accuracy == 4 / 8


def test_more_right_samples_of_a_problem_can_be_demonstrations(monkeypatch):
  lines, _ = _collect(monkeypatch, [0], right_samples=2)
  assert [x["solution"] for x in lines.demonstrations] == ["45", "7"]


def test_without_a_verdict_the_accuracy_is_zero(monkeypatch):
  lines, _ = _collect(monkeypatch, [2])
  assert (lines.accuracy, lines.problems, lines.responses) == (0, [], [])


def test_one_verdict_is_an_accuracy_of_one(monkeypatch):
  monkeypatch.setitem(globals(), "CORRECT", np.array([[-1, 1, -1]], np.int8))
  lines, _ = _collect(monkeypatch, [0])
  assert lines.accuracy == 1
  assert lines.problems[0]["pass_rate"] == 1


def test_the_problems_of_step_0_come_once_in_the_order_of_their_draw():
  def train(key, step, count):
    assert (key, step) == ("key", 0)
    return jax.tree.map(lambda leaf: leaf[:count], _problems([5, 2, 5, 3, 2]))

  task = SimpleNamespace(train=train)
  problems = training_lines.distinct_problems(task, "key", 5)
  np.testing.assert_array_equal(problems.ids, [5, 2, 3])
  np.testing.assert_array_equal(problems.prompts, [[5], [2], [3]])


def test_lines_cannot_be_changed(monkeypatch):
  lines, _ = _collect(monkeypatch, [0])
  with pytest.raises(AttributeError, match="cannot assign"):
    lines.pairs = []
