"""HumanEval: functions written to a docstring, run against hidden tests.

A line of the data has HumanEval's form. Four of its texts are read:

  {"prompt": imports, the head of the function and its docstring,
   "canonical_solution": the body of the function, indented,
   "test": source that defines check(candidate),
   "entry_point": name of the function}

Other datasets in this form can be read as well (`dataset="mbpp"`). Without a
chat template the prompt ends with the docstring, and the completion is the body
of the function. In a conversation the completion is the complete function, in a
block fenced as Python. `rewards.verifiers.code` runs the function against the
tests in a sandbox: the score is the share of the tests' assertions that hold,
and a completion is right if all of them hold. A program that takes too long is
wrong, and has the value 1 in "task/timeout".

In the paper a completion ends where it starts another piece of code
("\\ndef", "\\nif", "\\nprint"). Deviation: in this implementation a completion
that does not end with an end token is wrong. A base model often continues with
further code; use a conversation for it (`chat=True`), or train it first.

Usage:
  python -m experiments.evaluate --policy FOLDER --task humaneval \\
    --problems 164

Source: Chen et al. 2021, "Evaluating Large Language Models Trained on Code".
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

from experiments.data import json_lines, split_files
from experiments.tasks.task import Task
from experiments.tasks.text import prompting, text_options, text_task
from experiments.tasks.text.text_options import Example, TextOptions
from models import tokenizer
from rewards.verifiers import code, sandbox
from rl import UsageError

INSTRUCTION = (
  "Write the whole function, imports included, in one block fenced as Python."
)


@text_options.with_text_options(prompt_length=1024, completion_length=1024)
def humaneval(
  options: TextOptions,
  folder: str | None = None,
  dataset: str = "humaneval",
  workers: int | None = None,
  timeout: float = 10.0,
  allow_unprotected: bool = False,
) -> Task:
  """HumanEval, or another dataset of the same form, from local files.

  Args:
    options: settings of all text tasks. The task's own instruction asks for the
      complete function, and is used in conversations only.
    folder: folder of the files. None reads the folder from `$EXTREMUM_DATA`.
    dataset: beginning of the files' names; see `split_files.find`. The test
      file, `HumanEval.jsonl.gz` or `humaneval_test.jsonl`, is enough for
      evaluation with a tokenizer from a folder. Training needs
      `humaneval_train.jsonl` too.
    workers: number of programs that run at a time. None runs one per processor.
    timeout: seconds of wall time for each program. Its processor time is
      limited to half of that, rounded up to seconds.
    allow_unprotected: whether to run programs on a machine that lacks some of
      the sandbox's protections.

  Raises:
    UsageError: if data is missing, a line has another form, the machine lacks a
      protection, or `text_task.build` refuses the problems.
  """
  if not 0 < timeout < math.inf:
    raise UsageError(
      f"timeout={timeout} must be positive and finite; 10 is usual"
    )
  missing = () if allow_unprotected else sandbox.missing_protections()
  if missing:
    raise UsageError(
      f"{dataset} runs programs of the policy, and this machine lacks "
      f"{'; '.join(missing)}; allowed: another machine, or "
      "allow_unprotected=True where nothing can be harmed"
    )
  # The trained BPE has no chat template, so its prompts are no conversations.
  is_conversation = bool(options.tokenizer) and prompting.is_conversation(
    tokenizer.load(options.tokenizer), options.chat
  )
  files = split_files.find(dataset, folder)
  limits = sandbox.Limits(seconds=timeout, cpu_seconds=math.ceil(timeout / 2))
  return text_task.build(
    dataset,
    {
      split: [
        _example(location, line, is_conversation)
        for location, line in json_lines.read(file)
      ]
      for split, file in files.items()
    },
    options,
    functools.partial(
      code.verify,
      limits=limits,
      workers=workers,
      allow_unprotected=allow_unprotected,
    ),
    instruction=INSTRUCTION if is_conversation else "",
    files=files,
  )


def _example(
  location: str, line: Mapping[str, Any], is_conversation: bool
) -> Example:
  """Makes an example from a line of the data."""
  keys = ("prompt", "canonical_solution", "test", "entry_point")
  prompt, solution, test, entry_point = (
    json_lines.required_text(location, line, key) for key in keys
  )
  # The verifier puts a completion that is only a body after this text. It ends
  # where such a completion begins: on a new line after the docstring.
  prompt, solution = prompt.strip("\n").rstrip() + "\n", solution.rstrip()
  question = prompt.rstrip()  # `prompting.Template` adds the line break
  if is_conversation:
    question = f"```python\n{prompt}```"
    solution = f"```python\n{prompt}{solution}\n```"
  meta = {"prompt": prompt, "test": test, "entry_point": entry_point}
  # The verifier reads the tests, and not the reference answer.
  return Example(question, solution=solution, answer=solution, meta=meta)
