"""GSM8K: grade-school word problems whose answers are numbers.

A line of the data is a question and an answer with the solution in it:

  {"question": "Ann has 48 clips, sells half of them ...",
   "answer": "She sold 48/2 = <<48/2=24>>24 clips.\\n ... \\n#### 72"}

The prompt is the question. A completion is a solution that ends in `#### 72`;
`rewards.verifiers.numbers` compares this number with the number of the dataset.
If the dataset's answer is not a number, only the same text is right.

Source: Cobbe et al. 2021, "Training Verifiers to Solve Math Word Problems".
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

from experiments.data import split_files, tfds
from experiments.tasks.task import Task
from experiments.tasks.text import text_options, text_task
from experiments.tasks.text.text_options import Example, TextOptions
from rewards.verifiers import numbers
from rl import registry

FIELDS = ("question", "answer")
INSTRUCTION = (
  'Reason step by step, and end with the answer on a line of its own, as "#### '
  'NUMBER".'
)
_CALCULATION = re.compile(r"<<(.*?)>>")  # an annotation: <<48/2=24>>


def equations(answer: str) -> str:
  """Returns only the calculations, one per line: `48/2=24`, ..., `#### 72`."""
  text, mark, number = answer.rpartition(numbers.MARK)
  calculations = [match.strip() for match in _CALCULATION.findall(text)]
  return "\n".join([*calculations, mark + number])


def prose(answer: str) -> str:
  """Returns the answer without annotations: `She sold 48/2 = 24 clips.`"""
  return _CALCULATION.sub("", answer)


def annotated(answer: str) -> str:
  """Returns the answer as it is in the dataset."""
  return answer


# The setting `solution` -> function that makes a demonstration of an answer.
SOLUTIONS: dict[str, Callable[[str], str]] = {
  "equations": equations,
  "plain": prose,
  "annotated": annotated,
}


@text_options.with_text_options(prompt_length=None, completion_length=None)
def gsm8k(
  options: TextOptions,
  folder: str | None = None,
  solution: str = "equations",
  reference: bool = False,
) -> Task:
  """GSM8K from local files.

  By default the solutions of demonstrations are the dataset's annotated
  calculations without the prose around them. The prose is three quarters of the
  tokens and no verifier checks it, but a policy of a few million parameters
  would need most of its capacity to imitate it. The calculations alone contain
  the reasoning (Deng et al. 2023, "Implicit Chain of Thought Reasoning via
  Knowledge Distillation", trained small models on GSM8K in this form). For the
  1 % of answers without annotations, the solution is the line `#### 72` alone.
  Only supervised runs read solutions.

  Equal numbers have equal `answer_ids`, so that `72` and `72.0` are one answer
  in a majority vote.

  Args:
    options: settings of all text tasks. The default of `prompt_length` is 256
      with the trained BPE, enough for every test question at a `vocab_size` of
      2048, and 512 with a tokenizer from a folder. The default of
      `completion_length` is 128 with the trained BPE, enough for the
      calculations of every test solution, and 512 with a tokenizer from a
      folder, enough for the prose of every test solution.
    folder: folder of `gsm8k_train.jsonl` and `gsm8k_test.jsonl`. None reads
      the folder from `$EXTREMUM_DATA`. With a tokenizer from a folder, the test
      file is enough for evaluation.
    solution: form of the solutions in demonstrations: "equations" for the
      calculations, "plain" for the prose without annotations, or "annotated"
      for the dataset's text.
    reference: whether the task has the views "reference" and "bare_reference",
      for rewards by the likelihood of the reference answer.

  Raises:
    UsageError: if data is missing, a setting is not allowed, or
      `text_task.build` refuses the problems.
  """
  registry.check_known("solution", solution, SOLUTIONS)
  default_prompt, default_completion = (
    (512, 512) if options.tokenizer else (256, 128)
  )
  options = dataclasses.replace(
    options,
    prompt_length=options.prompt_length or default_prompt,
    completion_length=options.completion_length or default_completion,
  )
  required = ("test",) if options.tokenizer else split_files.SPLITS
  files = split_files.find("gsm8k", folder, required)
  lines = tfds.read(files, options.cache, FIELDS)
  return text_task.build(
    "gsm8k",
    {
      split: [_example(*texts, SOLUTIONS[solution]) for _, texts in split_lines]
      for split, split_lines in lines.items()
    },
    options,
    numbers.verify,
    instruction=INSTRUCTION,
    write_answer=lambda answer: f"{numbers.MARK} {answer}",
    answer_mark=numbers.MARK if reference else "",
    files=files,
    description=f"solution={solution}",
  )


def _example(
  question: str, answer: str, make_solution: Callable[[str], str]
) -> Example:
  """Makes an example from the two texts of a line."""
  solution = make_solution(answer.strip())
  return Example(
    question.strip(),
    solution=solution,
    answer=numbers.final_answer(solution),
  )
