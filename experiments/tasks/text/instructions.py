"""Instruction following: texts that obey what a program can check.

A line is IFEval's: a prompt, the names of its instructions, and the arguments
of each in the same order.

  {"prompt": "Praise the fox in lower case, without a comma.",
   "instruction_id_list": ["change_case:english_lowercase",
                           "punctuation:no_comma"],
   "kwargs": [{}, {}]}

IFBench's lines are of this form too. `rewards.verifiers.constraints` knows the
instructions of both. The score is the share of instructions obeyed, right is
who obeys all of them, strictly: the means of the two are IFEval's accuracies by
instruction (averaged by prompt) and by prompt. The components "loose" and
"all_loose" are the same where an introduction, a closing remark and bold type
are forgiven.

What the prompt is about does not count: a text that obeys and says nothing has
full marks. Mix in a judge or a reward model where that matters.

The form has no solutions. A line may have one under "solution", which imitation
is shown; a task whose train lines lack some is for reinforcement alone.

Usage:
  python -m experiments.evaluate --policy FOLDER --task instructions

Source: Zhou et al. 2023, "Instruction-Following Evaluation for Large Language
Models"; Pyatkin et al. 2025, "Generalizing Verifiable Instruction Following".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from experiments.data import json_lines
from experiments.tasks.task import Problems, Task
from experiments.tasks.text import prompting, text_task
from rewards.verifiers import constraints
from rewards.verifiers.pool import Pool

PARTS = ("strict", "loose", "all_loose")


def instructions(
  data_path: str | None = None,
  cache: str = "~/.cache/extremum",
  dataset: str = "ifeval",
  tokenizer: str = "",
  vocab_size: int = 2048,
  prompt_length: int = 512,
  completion_length: int = 1024,
  chat: bool | str = "auto",
  instruction: str = "",
  system: str = "",
  thinking: bool | None = None,
  too_long: str = "drop",
  workers: int = 4,
  timeout: float = 10.0,
) -> Task:
  """IFEval, or a dataset of the same form, from local files.

  Args:
    data_path: folder of the files; None reads `$EXTREMUM_DATA`.
    cache: folder for the task's own tokenizer.
    dataset: how the files' names begin, as of `lines.find`. The test file is
      enough to evaluate, with a tokenizer.
    tokenizer: a Hugging Face folder; "" learns a BPE from the train split.
    vocab_size: largest number of tokens of the task's own BPE.
    prompt_length: L.
    completion_length: T.
    chat, instruction, system, thinking, too_long: as of `language.Prompting`.
    workers: processes that judge completions.
    timeout: seconds that one completion may take, and is unscored beyond.

  Returns:
    The task, which is not jittable. `gold` and `demonstrate` raise a
    ValueError over problems without a solution.

  Raises:
    ValueError: missing data, a line of another form, an instruction that is
      unknown or lacks an argument, or what `math` refuses of the same settings.
  """
  files = json_lines.find(dataset, data_path)
  splits = {
    split: [_row(*line) for line in json_lines.read(file)]
    for split, file in files.items()
  }
  kept = json_lines.tokenizer_folder(
    tokenizer, cache, files, dataset, vocab_size
  )
  task = text_task.build(
    dataset,
    splits,
    prompting.find(tokenizer, splits, vocab_size, kept),
    prompting.Prompting(chat, instruction, system, thinking, too_long),
    Pool(constraints.verify, workers=workers, timeout=timeout),
    shortest=str,
    prompt_length=prompt_length,
    completion_length=completion_length,
    files=files,
    parts=PARTS,
  )
  rows = [row for split in splits.values() for row in split]

  def shown(solve: Callable[..., Any]) -> Callable[..., Any]:
    def checked(*args: Any) -> Any:
      problems: Problems = args[-1]
      for row in problems.facts["row"]:
        if not rows[row].solution:
          raise ValueError(
            f"{dataset} has no solution to {rows[row].question[:60]!r}; "
            "allowed: lines with a text under 'solution'"
          )
      return solve(*args)

    return checked

  return dataclasses.replace(
    task, gold=shown(task.gold), demonstrate=shown(task.demonstrate)
  )


def _row(where: str, line: Mapping[str, Any]) -> prompting.Row:
  prompt = json_lines.text(where, line, "prompt").strip()
  solution = json_lines.optional(where, line, "solution").strip()
  names, kwargs = line.get("instruction_id_list"), line.get("kwargs")
  if not (isinstance(names, list) and isinstance(kwargs, list)):
    raise ValueError(f"{where} has no lists 'instruction_id_list' and 'kwargs'")
  if not names or len(names) != len(kwargs):
    raise ValueError(
      f"{where} has {len(names)} instructions and {len(kwargs)} kwargs; "
      "allowed: as many of each, at least one"
    )
  if not all(isinstance(given, dict | None) for given in kwargs):
    raise ValueError(f"{where}: 'kwargs' is {kwargs!r:.80}; allowed: objects")
  rules = [
    {"name": str(name), **(arguments or {})}
    for name, arguments in zip(names, kwargs, strict=True)
  ]
  try:
    constraints.validate(rules)
  except ValueError as error:
    raise ValueError(f"{where}: {error}") from None
  return prompting.Row(prompt, solution, solution, {"constraints": rules})
