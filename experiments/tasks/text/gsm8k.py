"""GSM8K: grade-school word problems whose answers are numbers.

A line of the data is a question and an answer with the solution in it:

  {"question": "Ann has 48 clips, sells half of them ...",
   "answer": "She sold 48/2 = <<48/2=24>>24 clips.\\n ... \\n#### 72"}

The prompt is the question. A completion is a solution that ends in `#### 72`;
`rewards.verifiers.numbers` compares this number with the dataset's. Where the
dataset's answer is not a number, only the same text is right.

Source: Cobbe et al. 2021, "Training Verifiers to Solve Math Word Problems".
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

from experiments.data import json_lines, tfds
from experiments.tasks.task import Task
from experiments.tasks.text import text_task
from experiments.tasks.text.text_task import Example, TextOptions
from rewards.verifiers import numbers
from rl import registry

FIELDS = ("question", "answer")
INSTRUCTION = (
  'Reason step by step, and end with the answer on a line of its own, as "#### '
  'NUMBER".'
)
_CALCULATION = re.compile(r"<<(.*?)>>")  # an annotation, as above


def equations(answer: str) -> str:
  """Returns the calculations alone, one per line: `48/2=24`, ..., `#### 72`."""
  body, mark, number = answer.rpartition(numbers.MARK)
  steps = [step.strip() for step in _CALCULATION.findall(body)]
  return "\n".join([*steps, mark + number])


def prose(answer: str) -> str:
  """Returns the answer without annotations: `She sold 48/2 = 24 clips.`"""
  return _CALCULATION.sub("", answer)


def annotated(answer: str) -> str:
  """Returns the answer as it is in the dataset."""
  return answer


# What demonstrations show, by the setting `solution`.
SOLUTIONS: dict[str, Callable[[str], str]] = {
  "equations": equations,
  "plain": prose,
  "annotated": annotated,
}


@text_task.with_text_options(prompt_length=None, completion_length=None)
def gsm8k(
  options: TextOptions,
  data_path: str | None = None,
  solution: str = "equations",
  reference: bool = False,
) -> Task:
  """GSM8K from local files.

  By default solutions are the dataset's annotated calculations without the
  prose around them. The prose is three quarters of the tokens and is not
  checked, and a policy of a few million parameters spends its capacity on it;
  the equations keep the reasoning and are as exact to check (Deng et al. 2023,
  "Implicit Chain of Thought Reasoning via Knowledge Distillation", trained
  small models on GSM8K so). The 1 % of answers without annotations become the
  line `#### 72` alone. Solutions are seen by imitation only.

  `answer_ids` identify the numbers, so that `72` and `72.0` vote together.

  Args:
    options: settings of all text tasks. `prompt_length` is by default 256 with
      the trained BPE, which is enough for every test question at a `vocab_size`
      of 2048, and 512 with a tokenizer from a folder. `completion_length` is by
      default 128 with the trained BPE, enough for every test solution as
      equations, and else 512, enough for every one as prose.
    data_path: folder of `gsm8k_train.jsonl` and `gsm8k_test.jsonl`. None reads
      the folder from `$EXTREMUM_DATA`. With a tokenizer from a folder, the test
      file is enough for evaluation.
    solution: what demonstrations show: "equations", "plain" for the prose
      without annotations, or "annotated" for the dataset's text.
    reference: whether the task has the views "reference" and "bare_reference",
      for rewards by the likelihood of the reference answer.

  Raises:
    ValueError: if data is missing, a setting is not allowed, or
      `text_task.build` refuses the problems.
  """
  if solution not in SOLUTIONS:
    raise ValueError(registry.describe_unknown("solution", solution, SOLUTIONS))
  usual_prompt, usual_completion = (
    (512, 512) if options.tokenizer else (256, 128)
  )
  options = dataclasses.replace(
    options,
    prompt_length=options.prompt_length or usual_prompt,
    completion_length=options.completion_length or usual_completion,
  )
  required = ("test",) if options.tokenizer else json_lines.SPLITS
  files = json_lines.find("gsm8k", data_path, required)
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
  question: str, answer: str, render: Callable[[str], str]
) -> Example:
  solution = render(answer.strip())
  return Example(question.strip(), solution, numbers.final_answer(solution))
