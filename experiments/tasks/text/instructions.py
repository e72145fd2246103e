"""Instruction following: texts that obey rules which a program can check.

A line of the data has IFEval's form: a prompt, the names of its instructions,
and the arguments of each instruction in the same order.

  {"prompt": "Praise the fox in lower case, without a comma.",
   "instruction_id_list": ["change_case:english_lowercase",
                           "punctuation:no_comma"],
   "kwargs": [{}, {}]}

Lines of IFBench have this form too, and `rewards.verifiers.constraints` checks
the instructions of IFEval and IFBench. The score, and the component "strict",
is the share of the prompt's instructions that a completion obeys; a completion
is right if it obeys all of them. The mean of the verdicts is IFEval's strict
accuracy of prompts. The mean of the scores weighs every prompt equally, while
IFEval's strict accuracy of instructions weighs every instruction equally. The
components "loose" (a share) and "all_loose" (1 or 0) count an instruction as
obeyed also if the completion obeys it without its introduction, its closing
remark or its bold type.

The score does not depend on the topic of the prompt: a text without meaning can
have the full score. Combine the score with a judge or a reward model where the
meaning matters.

The datasets have no solutions. A line may have a solution under "solution", for
demonstrations. A task without solutions can be trained on by RL, but not by
imitation.

Usage:
  python -m experiments.evaluate --policy FOLDER --task instructions

Source: Zhou et al. 2023, "Instruction-Following Evaluation for Large Language
Models"; Pyatkin et al. 2025, "Generalizing Verifiable Instruction Following".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from experiments.data import json_lines, split_files
from experiments.tasks.task import Problems, Task
from experiments.tasks.text import text_options, text_task
from experiments.tasks.text.text_options import Example, TextOptions
from rewards.verifiers import constraints
from rewards.verifiers.pool import Pool
from rl import UsageError

PARTS = ("strict", "loose", "all_loose")


@text_options.with_text_options(completion_length=1024)
def instructions(
  options: TextOptions,
  folder: str | None = None,
  dataset: str = "ifeval",
  workers: int = 4,
  timeout: float = 10.0,
) -> Task:
  """IFEval, or another dataset of the same form, from local files.

  Args:
    options: settings of all text tasks.
    folder: folder of the files. None reads the folder from `$EXTREMUM_DATA`.
    dataset: beginning of the files' names; see `split_files.find`. The test
      file is enough for evaluation with a tokenizer from a folder.
    workers: number of processes that judge completions.
    timeout: seconds to judge one completion. A completion that takes longer is
      wrong if the worker process computed for half of that time, else unscored.

  Returns:
    The task. Its `gold` and `demonstrate` raise a UsageError if a problem has
    no solution.

  Raises:
    UsageError: if data is missing, a line has another form, an instruction is
      unknown or lacks an argument, or `text_task.build` refuses the problems.
  """
  files = split_files.find(dataset, folder)
  splits = {
    split: [_example(*line) for line in json_lines.read(file)]
    for split, file in files.items()
  }
  task = text_task.build(
    dataset,
    splits,
    options,
    Pool(constraints.verify, workers=workers, timeout=timeout),
    parts=PARTS,
    files=files,
  )
  examples = [example for split in splits.values() for example in split]

  def check_solutions(problems: Problems) -> None:
    for index in problems.facts["row"]:
      if not examples[index].solution:
        raise UsageError(
          f"{dataset} has no solution to {examples[index].question[:60]!r}; "
          "allowed: lines with a text under 'solution'"
        )

  def gold(problems: Problems) -> tuple[text_task.Array, text_task.Array]:
    check_solutions(problems)
    return task.gold(problems)

  def demonstrate(
    key: Any, problems: Problems
  ) -> tuple[text_task.Array, text_task.Array]:
    check_solutions(problems)
    return task.demonstrate(key, problems)

  return dataclasses.replace(task, gold=gold, demonstrate=demonstrate)


def _example(location: str, line: Mapping[str, Any]) -> Example:
  """Makes an example from a line of the data."""
  prompt = json_lines.required_text(location, line, "prompt").strip()
  solution = json_lines.optional_text(location, line, "solution").strip()
  names, arguments = line.get("instruction_id_list"), line.get("kwargs")
  if not (isinstance(names, list) and isinstance(arguments, list)):
    raise UsageError(
      f"{location} has no lists 'instruction_id_list' and 'kwargs'"
    )
  if not names or len(names) != len(arguments):
    raise UsageError(
      f"{location} has {len(names)} instructions and {len(arguments)} kwargs; "
      "it must have as many kwargs as instructions, and at least one"
    )
  if not all(isinstance(values, dict | None) for values in arguments):
    raise UsageError(
      f"{location}: 'kwargs' is {arguments!r:.80}; it must be a list of objects"
    )
  named_instructions = [
    {"name": str(name), **(values or {})}
    for name, values in zip(names, arguments, strict=True)
  ]
  try:
    constraints.validate(named_instructions)
  except UsageError as error:
    raise UsageError(f"{location}: {error}") from None
  # The answer is written by `gold`; the verifier reads only the instructions.
  meta = {"constraints": named_instructions}
  return Example(prompt, solution=solution, answer=solution, meta=meta)
