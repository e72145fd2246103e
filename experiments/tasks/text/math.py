"""MATH: competition problems, answered in a box, scored on the host.

The prompt is the problem, the completion a solution with `\\boxed{...}` in it.
`rewards.verifiers.maths` compares what the box holds with the dataset's answer,
in worker processes, which start when the first completions are judged;
`experiments.tasks.text.text_task` does the rest. Where a reference cannot be read as
mathematics, only the same text is right and any other answer is wrong.

Usage:
  python -m experiments.evaluate --policy FOLDER --task "math(dataset='math500')"

Source: Hendrycks et al. 2021, "Measuring Mathematical Problem Solving With the
MATH Dataset"; MATH-500 is the test part of Lightman et al. 2023, "Let's Verify
Step by Step".
"""

from __future__ import annotations

import re

from experiments.data import json_lines, tfds
from experiments.tasks.task import Task
from experiments.tasks.text import prompting, text_task
from models import storage_paths
from rewards.verifiers import maths
from rewards.verifiers.answers import final_answer
from rewards.verifiers.pool import Pool

INSTRUCTION = "Reason step by step, and put the final answer in \\boxed{}."
FIELDS = ("problem", "solution", "answer")
_MARK = "\\boxed{"
_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")


def math(
  data_path: str | None = None,
  cache: str = "~/.cache/extremum",
  dataset: str = "math",
  tokenizer: str = "",
  vocab_size: int = 2048,
  prompt_length: int = 512,
  completion_length: int = 1024,
  chat: bool | str = "auto",
  instruction: str | None = None,
  system: str = "",
  thinking: bool | None = None,
  too_long: str = "drop",
  reference: bool = False,
  steps: bool = False,
  max_steps: int = 16,
  workers: int = 4,
  timeout: float = 10.0,
) -> Task:
  """MATH, or a dataset of the same form, from local jsonl files.

  A line is `{"problem": ..., "solution": ..., "answer": ...}`. Without an
  answer, it is the solution's last box; without a solution, or without a box in
  it, the boxed answer is written behind. `answer_ids` are the answers: equal
  ones vote together. A completion that did not finish has no answer.

  Args:
    data_path: folder of the files; None reads `$EXTREMUM_DATA`.
    cache: folder for prepared data and the tokenizer, made once per content.
    dataset: how the files' names begin, `math_train.jsonl` and
      `math_test.jsonl`. A test file alone, `math500_test.jsonl` say, makes a
      task that can be evaluated and not trained; it needs a tokenizer.
    tokenizer: a Hugging Face folder; "" learns a BPE from the train split.
    vocab_size: largest number of tokens of the task's own BPE.
    prompt_length: L.
    completion_length: T.
    chat, system, thinking, too_long: as of `language.Prompting`.
    instruction: a line after the problem; None is one that asks for the box,
      and nothing with the own BPE.
    reference: whether to give the view "reference", for rewards of the
      likelihood of the reference answer.
    steps, max_steps: whether to score steps, and K, as of `text.build`.
    workers: processes that judge completions.
    timeout: seconds that one completion may take, and is unscored beyond.

  Returns:
    The task, which is not jittable.

  Raises:
    ValueError: missing data, a line of another form, a tokenizer without EOS or
      without the chat template asked for, a vocabulary without room for the
      bytes, lengths that no problem fits, or a limit that is not positive.
  """
  files = json_lines.find(dataset, data_path)
  folder = storage_paths.require_local(cache, "cache").expanduser() / (
    f"{dataset}-{json_lines.fingerprint(files, FIELDS)}"
  )
  found = tfds.read(files, folder, FIELDS, optional=FIELDS[1:])
  splits = {
    split: [_row(where, *fields) for where, fields in rows]
    for split, rows in found.items()
  }
  kept = folder / f"tokenizer-{vocab_size}"
  spoken = prompting.find(tokenizer, splits, vocab_size, kept)
  if instruction is None:
    instruction = "" if spoken.own else INSTRUCTION
  return text_task.build(
    dataset,
    splits,
    spoken,
    prompting.Prompting(chat, instruction, system, thinking, too_long),
    Pool(maths.verify, workers=workers, timeout=timeout),
    shortest=_box,
    prompt_length=prompt_length,
    completion_length=completion_length,
    files=files,
    mark=_MARK if reference else "",
    steps=steps,
    max_steps=max_steps,
  )


def _row(where: str, problem: str, solution: str, answer: str) -> prompting.Row:
  solution = solution.strip()
  boxes = final_answer(solution) if _BOX.search(solution) else ""
  answer = answer.strip() or boxes
  if not answer:
    raise ValueError(
      f"{where} has no answer: neither 'answer' nor a \\boxed{{}} in 'solution'"
    )
  if not boxes:
    solution = f"{solution}\n{_box(answer)}".strip()
  return prompting.Row(problem.strip(), solution, answer)


def _box(answer: str) -> str:
  return f"{_MARK}{answer}}}"
