"""Reads the file of texts that a run trains on: demonstrations or preferences.

A line of the file is a JSON object. Further keys are ignored.

  config.demonstrations   {"prompt": TEXT, "solution": TEXT}
  config.preferences      {"prompt": TEXT, "chosen": TEXT, "rejected": TEXT}

A text task puts a prompt into its template. In the other tasks each word is the
text of one token: "2 3 4 = d2 d0". A completion ends with EOS, which the file
does not contain. `python -m experiments.preferences` writes such files.

Shapes: N lines, C completions per line (one solution; or chosen and rejected),
L prompt tokens, T completion tokens.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections
import numpy as np
from etils import epath

from experiments.data import epochs, json_lines, padding
from experiments.tasks.task import Problems, Task
from rl import UsageError

Array = np.ndarray

PROMPT, SOLUTION = "prompt", "solution"
CHOSEN, REJECTED = "chosen", "rejected"
# Kind of a run -> key of its config that names the file, and the keys of a line
# that have completions. The first completion is the best.
FILES: Mapping[str, tuple[str, tuple[str, ...]]] = {
  "supervised": ("demonstrations", (SOLUTION,)),
  "preferences": ("preferences", (CHOSEN, REJECTED)),
}


@dataclasses.dataclass(frozen=True, eq=False)  # hashed by identity
class TrainingTexts:
  """The lines of a file in tokens.

  Attributes:
    prompts: `[N, L]` int32, padded on the left.
    prompt_mask: `[N, L]` bool, True on real tokens.
    completions: `[N, C, T]` int32, padded on the right.
    lengths: `[N, C]` int32, number of completion tokens, EOS included.
    ids: `[N]` int32; lines with the same prompt have the same id.
    fingerprint: text that changes with the content of the file.
    note: line that a run prints.
  """

  prompts: Array
  prompt_mask: Array
  completions: Array
  lengths: Array
  ids: Array
  fingerprint: str
  note: str

  def __len__(self) -> int:
    return len(self.ids)

  def rows(self, key: Any, step: Any, n: int) -> Array:
    """Returns the indices of the n lines of a training step, `[n]`."""
    return epochs.batch(np.arange(len(self)), key, step, n)

  def problems(self, rows: Array) -> Problems:
    """Returns the prompts of lines. They have no facts, with which to score."""
    return Problems(
      self.prompts[rows], self.prompt_mask[rows], self.ids[rows], facts={}
    )


def check(config: ml_collections.ConfigDict) -> None:
  """Checks that a run that learns from preferences names their file."""
  if config.kind == "preferences" and not config.preferences:
    raise UsageError(
      "preferences is empty; name a file of lines with 'prompt', 'chosen' and "
      "'rejected', such as --config.preferences=pairs.jsonl (`python -m "
      "experiments.preferences` writes one)"
    )


def read_for(
  config: ml_collections.ConfigDict, task: Task
) -> TrainingTexts | None:
  """Reads the file that a config names; None if it names no file."""
  key, fields = FILES.get(config.kind, ("", ()))
  file = config.get(key, "")
  if not file:
    return None
  try:
    return read(epath.Path(file).expanduser(), task, fields)
  except UsageError as error:
    raise UsageError(f"{key}: {error}") from None


def read(file: epath.Path, task: Task, fields: Sequence[str]) -> TrainingTexts:
  """Reads a file and turns its texts into tokens.

  A line whose prompt has more than L tokens, or one of whose completions has
  more than T, is left out.

  Args:
    file: JSONL file.
    task: task with the template, the tokens, L and T.
    fields: keys of a line that have completions.

  Raises:
    UsageError: the file cannot be read; a line lacks a text, has two equal
      completions or a text that the task has no tokens for; or all lines are
      too long. The message names the line.
  """
  json_lines.check_is_file(file)
  all_prompts, all_completions = [], []
  lines = json_lines.read(file)
  for location, line in lines:
    texts = [
      json_lines.required_text(location, line, key) for key in (PROMPT, *fields)
    ]
    if len(set(texts[1:])) < len(fields):
      raise UsageError(
        f"{location}: {' and '.join(map(repr, fields))} are the same text "
        f"{texts[1][:40]!r}; remove the line, or give two different texts"
      )
    try:
      prompt = task.prompt_ids(texts[0].strip())
      completions = [task.completion_ids(text) for text in texts[1:]]
    except UsageError as error:
      raise UsageError(f"{location}: {error}") from None
    largest = max(map(max, (prompt, *completions)))
    if largest >= task.vocab_size:
      raise UsageError(
        f"{location}: the token {task.decode([largest])!r} has the id "
        f"{largest}, but {task.name} has {task.vocab_size} tokens; remove it "
        "from the line"
      )
    if len(prompt) <= task.prompt_length and (
      max(map(len, completions)) <= task.completion_length
    ):
      all_prompts.append(prompt)
      all_completions.append(completions)
  if not all_prompts:
    raise UsageError(
      f"no line of {file.name} fits into the {task.prompt_length} tokens of a "
      f"prompt and the {task.completion_length} tokens of a completion of "
      f"{task.name}; set prompt_length and completion_length of the task"
    )
  num_dropped = len(lines) - len(all_prompts)
  completions, lengths = padding.on_right(
    [ids for row in all_completions for ids in row],
    *(task.completion_length, task.pad_id),
  )
  return TrainingTexts(
    *padding.on_left(all_prompts, task.prompt_length, task.pad_id),
    completions=completions.reshape(len(all_prompts), len(fields), -1),
    lengths=lengths.reshape(len(all_prompts), len(fields)),
    ids=_identify(all_prompts),
    fingerprint=json_lines.fingerprint({"train": file}, fields),
    note=f"{file.name}: {len(all_prompts)} lines, {num_dropped} too long and "
    f"left out{_contradictions(all_prompts, all_completions)}",
  )


def _contradictions(
  prompts: Sequence[list[int]], completions: Sequence[Sequence[list[int]]]
) -> str:
  """Returns a note on pairs that prefer what another one rejects, or ""."""
  pairs = [
    (tuple(prompt), *map(tuple, row))
    for prompt, row in zip(prompts, completions, strict=True)
    if len(row) == 2
  ]
  distinct_pairs = set(pairs)
  count = sum(
    (prompt, rejected, chosen) in distinct_pairs
    for prompt, chosen, rejected in pairs
  )
  return f"; {count} prefer what another one rejects" if count else ""


def _identify(prompts: Sequence[list[int]]) -> Array:
  """Returns the index of the first line with the same prompt, `[N]` int32."""
  first: dict[tuple[int, ...], int] = {}
  ids = [first.setdefault(tuple(ids), i) for i, ids in enumerate(prompts)]
  return np.array(ids, np.int32)
