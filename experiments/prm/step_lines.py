"""Lines of labelled steps: the file from which a process reward model learns.

A line of the file is a JSON object:

  {"prompt": TEXT, "steps": [TEXT, ...], "labels": [NUMBER or null, ...],
   "potentials": [NUMBER or null, ...], "correct": 1, 0 or null,
   "finished": true or false, "category": TEXT}

A label is in [0, 1]; null is no label. The `potentials` are labels of a second
kind (`step_losses.dual_head`), `correct` is the verdict of the whole sample,
`finished` says whether an end token follows the last step, and the category
groups lines for `evaluate`; these four may be left out (no labels, null, true,
""). Further keys are ignored. Lines with the same prompt are samples of one
problem. A text task puts a prompt into its template. In the other tasks each
word is the text of one token: "+ 3 7 ;".

Axes: N lines, L prompt tokens, T completion tokens, K steps.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from etils import epath

from experiments.data import json_lines
from experiments.tasks.task import Problems, Task
from rewards.process import step_data
from rewards.process.forest import Samples
from rewards.process.label_sources.base import StepLabels
from rl import UsageError, types

PROMPT, STEPS = "prompt", "steps"
LABELS, POTENTIALS = "labels", "potentials"
CORRECT, FINISHED, CATEGORY = "correct", "finished", "category"


def make_lines(
  task: Task,
  problems: Problems,
  samples: Samples,
  labels: StepLabels,
  potentials: StepLabels | None = None,
) -> Iterator[dict[str, Any]]:
  """Yields the line of every labelled sample of a forest.

  A sample with a token that no text stands for, such as padding, or with an
  empty step, is left out.

  Args:
    task: task of the samples.
    problems: the problems of the forest, as numpy arrays.
    samples: the samples of the forest.
    labels: labels of some of them.
    potentials: labels of a second kind; None writes none.
  """
  prompts = task.prompt_texts(problems)
  # Row of the forest -> values and weights of its potentials.
  second = {}
  if potentials is not None:
    second = {int(row): pair for row, *pair in zip(*potentials, strict=True)}
  for row, values, weights in zip(*labels, strict=True):
    count = int(samples.num_steps[row])
    length = int(samples.lengths[row])
    ids = samples.completions[row][:length]
    step_ids = samples.step_ids[row][:length]
    finished = bool(np.isin(ids[-1:], task.eos_ids).any())
    if finished:  # the end token is written again when the line is read
      ids, step_ids = ids[:-1], step_ids[:-1]
    parts = [ids[step_ids == k] for k in range(count)]
    texts = [task.decode(part) for part in parts]
    # The tokens of words are read as they were written, or not at all.
    if task.encode_completion is None and not all(
      _is_text(task, text, part)
      for text, part in zip(texts, parts, strict=True)
    ):
      continue
    if not all(text.strip() for text in texts[:-1]) or not (
      finished or texts[-1].strip()
    ):
      continue
    verdict = int(samples.correct[row])
    line = {
      PROMPT: prompts[samples.problems[row]],
      STEPS: texts,
      LABELS: _to_json(values[:count], weights[:count]),
    }
    if int(row) in second:
      line[POTENTIALS] = _to_json(*(x[:count] for x in second[int(row)]))
    correct = None if verdict < 0 else verdict
    yield line | {CORRECT: correct, FINISHED: finished}


def _is_text(task: Task, text: str, ids: np.ndarray) -> bool:
  """Returns whether a text of words is read as these tokens."""
  try:
    return _step_ids_of(task, text) == ids.tolist()
  except UsageError:
    return False


def _to_json(values: np.ndarray, weights: np.ndarray) -> list[float | None]:
  """Returns labels; None where the weight is 0."""
  return [
    round(float(value), 4) if weight else None
    for value, weight in zip(values, weights, strict=True)
  ]


def read(file: epath.PathLike, task: Task, max_steps: int) -> Lines:
  """Reads a file and turns its texts into tokens.

  Lines that do not fit into L and T tokens are left out. Steps from number
  `max_steps` - 1 on are one step, whose label is 0 if one of them has the label
  0, and else that of the last of them.

  Args:
    file: JSONL file.
    task: task with the template, the tokens, L and T.
    max_steps: K.

  Raises:
    UsageError: the file cannot be read, a line is not as above, a text has no
      tokens in the task, or no line fits. The message names the line.
  """
  file = epath.Path(file).expanduser()
  json_lines.check_is_file(file)
  rows = []
  lines = json_lines.read(file)
  for location, line in lines:
    try:
      row = _read_line(location, line, task, max_steps)
    except UsageError as error:
      text = str(error)
      prefix = "" if text.startswith(location) else f"{location}: "
      raise UsageError(f"{prefix}{text}") from None
    if row is not None:
      rows.append(row)
  if not rows:
    raise UsageError(
      f"no line of {file.name} fits into the {task.prompt_length} tokens of a "
      f"prompt and the {task.completion_length} tokens of a completion of "
      f"{task.name}"
    )
  return Lines(
    data=_to_arrays(rows, task, max_steps),
    categories=[row.category for row in rows],
    left_out=len(lines) - len(rows),
  )


class Lines(NamedTuple):
  """The lines of a file in tokens."""

  data: step_data.StepData
  categories: list[str]  # category of each line, "" if it has none
  left_out: int  # number of lines that do not fit


class _Row(NamedTuple):
  """A line in tokens; `correct` is -1 if it is unknown."""

  prompt: list[int]
  steps: list[list[int]]
  labels: list[float | None]
  potentials: list[float | None]
  correct: int
  category: str


def _read_line(
  location: str, line: dict[str, Any], task: Task, max_steps: int
) -> _Row | None:
  """Returns the row of a line; None if it does not fit."""
  prompt = task.prompt_ids(
    json_lines.required_text(location, line, PROMPT).strip()
  )
  texts, labels = line.get(STEPS), line.get(LABELS)
  if not isinstance(texts, list) or not all(isinstance(t, str) for t in texts):
    raise UsageError(f"{STEPS!r} must be a list of texts, got {texts!r:.80}")
  if not texts:
    raise UsageError(f"{STEPS!r} is empty; a line has at least one step")
  potentials = line.get(POTENTIALS, [None] * len(texts))
  _check_labels(LABELS, labels, len(texts))
  _check_labels(POTENTIALS, potentials, len(texts))
  correct = line.get(CORRECT)
  if correct not in (None, 0, 1):
    raise UsageError(f"{CORRECT!r} = {correct!r} must be 1, 0 or null")
  finished = line.get(FINISHED, True)
  if not isinstance(finished, bool):
    raise UsageError(f"{FINISHED!r} = {finished!r} must be true or false")
  steps = [_step_ids_of(task, text) for text in texts]
  if finished:
    steps[-1] = [*steps[-1], task.eos_id]
  for number, ids in enumerate(steps):
    if not ids:
      raise UsageError(f"step {number} has no text; remove it")
  if len(steps) > max_steps:
    rest = itertools.chain.from_iterable(steps[max_steps - 1 :])
    steps = [*steps[: max_steps - 1], list(rest)]
    labels = _merge_labels(labels, max_steps)
    potentials = _merge_labels(potentials, max_steps)
  length = sum(map(len, steps))
  if len(prompt) > task.prompt_length or length > task.completion_length:
    return None
  verdict = -1 if correct is None else int(correct)
  category = str(line.get(CATEGORY, ""))
  return _Row(prompt, steps, labels, potentials, verdict, category)


def _merge_labels(
  labels: list[float | None], max_steps: int
) -> list[float | None]:
  """Returns labels of which the last one is that of all further steps."""
  rest = labels[max_steps - 1 :]
  return [*labels[: max_steps - 1], 0.0 if 0 in rest else rest[-1]]


def _check_labels(key: str, labels: Any, count: int) -> None:
  """Raises a UsageError unless these are the labels of `count` steps."""
  if not isinstance(labels, list) or len(labels) != count:
    raise UsageError(
      f"{key!r} must be a list with one entry for each of the {count} steps, "
      f"got {labels!r:.80}"
    )
  for label in labels:
    is_number = isinstance(label, (int, float)) and not isinstance(label, bool)
    if label is not None and not (is_number and 0 <= label <= 1):
      raise UsageError(
        f"{key!r} has {label!r}; a label is a number from 0 to 1, or null"
      )


def _step_ids_of(task: Task, text: str) -> list[int]:
  """Returns the tokens of the text of a step, without an end token."""
  # The task raises a UsageError if it has no tokens for the text.
  ids = task.completion_ids(text)
  return ids[:-1] if ids[-1:] == [task.eos_id] else ids


def _to_arrays(
  rows: Sequence[_Row], task: Task, max_steps: int
) -> step_data.StepData:
  """Returns rows as padded arrays."""
  n = len(rows)
  prompts = np.full((n, task.prompt_length), task.pad_id, np.int32)
  prompt_mask = np.zeros(prompts.shape, bool)
  completions = np.full((n, 1, task.completion_length), task.pad_id, np.int32)
  step_ids = np.full(completions.shape, -1, np.int32)
  # Values and weights of labels and of potentials.
  values, weights, potentials, potential_weights = np.zeros(
    (4, n, 1, max_steps), np.float32
  )
  first: dict[tuple[int, ...], int] = {}
  for i, row in enumerate(rows):
    prompts[i, -len(row.prompt) :] = row.prompt
    prompt_mask[i, -len(row.prompt) :] = True
    first.setdefault(tuple(row.prompt), len(first))
    ids = list(itertools.chain.from_iterable(row.steps))
    completions[i, 0, : len(ids)] = ids
    numbers = np.repeat(np.arange(len(row.steps)), list(map(len, row.steps)))
    step_ids[i, 0, : len(ids)] = numbers
    for k, (label, potential) in enumerate(
      zip(row.labels, row.potentials, strict=True)
    ):
      if label is not None:
        values[i, 0, k], weights[i, 0, k] = label, 1
      if potential is not None:
        potentials[i, 0, k], potential_weights[i, 0, k] = potential, 1
  lengths = (step_ids >= 0).sum(-1).astype(np.int32)
  return step_data.StepData(
    tokens=types.Tokens(
      prompts=prompts,
      prompt_mask=prompt_mask,
      completions=completions,
      lengths=lengths,
      mask=step_ids >= 0,
    ),
    step_ids=step_ids,
    values=values,
    weights=weights,
    potentials=potentials,
    potential_weights=potential_weights,
    correct=np.array([[row.correct] for row in rows], np.int8),
    problems=np.array([first[tuple(row.prompt)] for row in rows], np.int32),
  )
