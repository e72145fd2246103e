"""HumanEval: functions written to a docstring, run against hidden tests.

A line is HumanEval's, five texts:

  {"task_id": "HumanEval/0",
   "prompt": imports, the function's head and its docstring,
   "canonical_solution": its body, indented,
   "test": source that defines check(candidate),
   "entry_point": the function's name}

and other programs in that form (`dataset="mbpp"`) are read as well. A plain
prompt ends with the docstring, and the completion goes on from there; in a
conversation the policy is asked for the whole function, in a block fenced as
Python. `rewards.verifiers.code` runs it against the tests in a sandbox: the
score is the share of assertions passed, right is who passes all of them, and a
program that takes too long is wrong, counted by the metrics of "timeout".

In the paper a completion ends where it begins another piece of code
("\\ndef", "\\nif", "\\nprint"); here it ends with its EOS, or is wrong. A base
model that writes on is better asked in a conversation or trained first.

Usage:
  python -m experiments.evaluate --policy FOLDER --task humaneval \\
    --problems 164

Source: Chen et al. 2021, "Evaluating Large Language Models Trained on Code".
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

from experiments.data import json_lines
from experiments.tasks.task import Task
from experiments.tasks.text import prompting, text_task
from rewards.verifiers import code, sandbox

INSTRUCTION = (
  "Write the whole function, imports included, in one block fenced as Python."
)


def humaneval(
  data_path: str | None = None,
  cache: str = "~/.cache/extremum",
  dataset: str = "humaneval",
  tokenizer: str = "",
  vocab_size: int = 2048,
  prompt_length: int = 1024,
  completion_length: int = 1024,
  chat: bool | str = "auto",
  instruction: str | None = None,
  system: str = "",
  thinking: bool | None = None,
  too_long: str = "drop",
  workers: int | None = None,
  timeout: float = 10.0,
  allow_unprotected: bool = False,
) -> Task:
  """HumanEval, or a dataset of the same form, from local files.

  Args:
    data_path: folder of the files; None reads `$EXTREMUM_DATA`.
    cache: folder for the task's own tokenizer.
    dataset: how the files' names begin, as of `lines.find`. The test file is
      enough to evaluate, with a tokenizer: `HumanEval.jsonl.gz` or
      `humaneval_test.jsonl`. Training needs `humaneval_train.jsonl` too.
    tokenizer: a Hugging Face folder; "" learns a BPE from the train split.
    vocab_size: largest number of tokens of the task's own BPE.
    prompt_length: L.
    completion_length: T.
    chat, system, thinking, too_long: as of `language.Prompting`.
    instruction: a line after the prompt; None is one that asks for the whole
      function, in a conversation alone.
    workers: programs at a time; None: one for each processor.
    timeout: seconds of the clock for each program, of which it may compute
      half.
    allow_unprotected: whether to run programs where the sandbox lacks means.

  Returns:
    The task, which is not jittable.

  Raises:
    ValueError: missing data, a line of another form, a machine without the
      sandbox's means, or what `math` refuses of the same settings.
  """
  if not 0 < timeout < math.inf:
    raise ValueError(f"timeout={timeout} must be positive; 10 is usual")
  missing = () if allow_unprotected else sandbox.missing_protections()
  if missing:
    raise ValueError(
      f"{dataset} runs programs of the policy, and this machine lacks "
      f"{'; '.join(missing)}; allowed: another machine, or "
      "allow_unprotected=True where nothing can be harmed"
    )
  files = json_lines.find(dataset, data_path)
  found = {split: json_lines.read(file) for split, file in files.items()}
  wording = prompting.Prompting(
    chat, instruction or "", system, thinking, too_long
  )

  def rows(fenced: bool) -> dict[str, list[prompting.Row]]:
    return {
      split: [_row(*line, fenced) for line in split_lines]
      for split, split_lines in found.items()
    }

  kept = json_lines.tokenizer_folder(
    tokenizer, cache, files, dataset, vocab_size
  )
  spoken = prompting.find(tokenizer, rows(fenced=False), vocab_size, kept)
  fenced = wording.is_chat(spoken.tokenizer)
  if instruction is None and fenced:
    wording = dataclasses.replace(wording, instruction=INSTRUCTION)
  limits = sandbox.Limits(seconds=timeout, cpu_seconds=math.ceil(timeout / 2))
  return text_task.build(
    dataset,
    rows(fenced),
    spoken,
    wording,
    functools.partial(
      code.verify,
      limits=limits,
      workers=workers,
      allow_unprotected=allow_unprotected,
    ),
    shortest=str,
    prompt_length=prompt_length,
    completion_length=completion_length,
    files=files,
  )


def _row(where: str, line: Mapping[str, Any], fenced: bool) -> prompting.Row:
  keys = ("prompt", "canonical_solution", "test", "entry_point")
  prompt, solution, test, entry_point = (
    json_lines.text(where, line, key) for key in keys
  )
  # The line on which the policy goes on is the one that its code is put on.
  prompt, solution = prompt.strip("\n").rstrip() + "\n", solution.rstrip()
  question = prompt.rstrip()
  if fenced:
    question = f"```python\n{prompt}```"
    solution = f"```python\n{prompt}{solution}\n```"
  meta = {"prompt": prompt, "test": test, "entry_point": entry_point}
  return prompting.Row(question, solution, solution, meta)
