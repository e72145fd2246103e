r"""MATH: competition problems whose answers are formulas in a box.

A line of the data has a problem, and a solution, an answer or both:

  {"problem": "What is $\\frac{1}{3} + \\frac{1}{6}$?",
   "solution": "It is $\\frac{3}{6} = \\boxed{\\frac{1}{2}}$.",
   "answer": "\\frac{1}{2}"}

The prompt is the problem. A completion is a solution with `\boxed{...}` in it;
`rewards.verifiers.maths` compares the content of the last box with the answer,
in worker processes, which start when the first completions are judged. If the
answer cannot be read as mathematics, only the same text is right.

Usage:
  python -m experiments.evaluate --policy FOLDER \
    --task "math(dataset='math500')"

Source: Hendrycks et al. 2021, "Measuring Mathematical Problem Solving With the
MATH Dataset"; MATH-500 is the test part of Lightman et al. 2023, "Let's Verify
Step by Step".
"""

from __future__ import annotations

import re

from experiments.data import split_files, tfds
from experiments.tasks.task import Task
from experiments.tasks.text import text_options, text_task
from experiments.tasks.text.text_options import Example, TextOptions
from rewards.verifiers import maths
from rewards.verifiers.answer_extraction import final_answer
from rewards.verifiers.pool import Pool
from rl import UsageError

INSTRUCTION = "Reason step by step, and put the final answer in \\boxed{}."
FIELDS = ("problem", "solution", "answer")
OPTIONAL = ("solution", "answer")
MARK = "\\boxed{"  # the answer of a completion begins here
_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")


@text_options.with_text_options(completion_length=1024)
def math(
  options: TextOptions,
  folder: str | None = None,
  dataset: str = "math",
  reference: bool = False,
  workers: int = 4,
  timeout: float = 10.0,
) -> Task:
  r"""MATH, or another dataset of the same form, from local files.

  If a line has no answer, the content of the last box of its solution is the
  answer. If the solution is missing or has no box, the boxed answer is appended
  to it. Equal values have equal `answer_ids`, so that `1/2` and `0.5` are one
  answer in a majority vote.

  Args:
    options: settings of all text tasks.
    folder: folder of the files. None reads the folder from `$EXTREMUM_DATA`.
    dataset: beginning of the files' names, `math_train.jsonl` and
      `math_test.jsonl`. A test file alone, such as `math500_test.jsonl`, is a
      task for evaluation; it needs a tokenizer from a folder.
    reference: whether the task has the views "reference" and "bare_reference",
      for rewards by the likelihood of the reference answer.
    workers: number of processes that judge completions.
    timeout: seconds to judge one completion. A completion that takes longer is
      wrong if the worker process computed for half of that time, else unscored.

  Raises:
    UsageError: if data is missing, a line has another form, a limit is not
      positive, or `text_task.build` refuses the problems.
  """
  files = split_files.find(dataset, folder)
  lines = tfds.read(files, options.cache, FIELDS, OPTIONAL)
  return text_task.build(
    dataset,
    {
      split: [_example(location, *texts) for location, texts in split_lines]
      for split, split_lines in lines.items()
    },
    options,
    Pool(maths.verify, workers=workers, timeout=timeout),
    instruction=INSTRUCTION,
    write_answer=_box,
    answer_mark=MARK if reference else "",
    files=files,
  )


def _example(
  location: str, problem: str, solution: str, answer: str
) -> Example:
  """Makes an example from the texts of a line; "" if a text is missing."""
  solution = solution.strip()
  boxed = final_answer(solution) if _BOX.search(solution) else ""
  answer = answer.strip() or boxed
  if not answer:
    raise UsageError(
      f"{location} has no answer: neither 'answer' nor a \\boxed{{}} in "
      "'solution'"
    )
  if not boxed:
    solution = f"{solution}\n{_box(answer)}".strip()
  return Example(problem.strip(), solution=solution, answer=answer)


def _box(answer: str) -> str:
  return f"{MARK}{answer}}}"
