"""GSM8K: grade-school word problems, answered in text, scored on the host.

The prompt is the question, the completion a solution that ends in `#### 18` and
EOS. `rewards.verifiers.numbers` compares the answer with the dataset's;
`experiments.tasks.text.text_task` does the rest. Where a reference is not a number, only
the same text is right and any other answer is wrong.

Source: Cobbe et al. 2021, "Training Verifiers to Solve Math Word Problems".
"""

from __future__ import annotations

import re
from collections.abc import Callable

from experiments.data import json_lines, tfds
from experiments.tasks.task import Task
from experiments.tasks.text import prompting, text_task
from models import storage_paths
from rewards.verifiers import numbers
from rl import choices

INSTRUCTION = (
  'Reason step by step, and end with the answer on a line of its own, as "#### '
  'NUMBER".'
)
_CALCULATION = re.compile(r"<<(.*?)>>")


def equations(answer: str) -> str:
  """The calculations alone, one a line: `48/2=24`, `48+24=72`, `#### 72`."""
  body, mark, final = answer.rpartition(numbers.MARK)
  steps = [step.strip() for step in _CALCULATION.findall(body)]
  return "\n".join([*steps, mark + final])


def plain(answer: str) -> str:
  """The prose without its calculator annotations."""
  return _CALCULATION.sub("", answer)


def annotated(answer: str) -> str:
  """The answer as the dataset has it."""
  return answer


SOLUTIONS: dict[str, Callable[[str], str]] = {
  "equations": equations,
  "plain": plain,
  "annotated": annotated,
}


def gsm8k(
  data_path: str | None = None,
  cache: str = "~/.cache/extremum",
  solution: str = "equations",
  vocab_size: int = 2048,
  prompt_length: int | None = None,
  completion_length: int | None = None,
  tokenizer: str = "",
  chat: bool | str = "auto",
  instruction: str | None = None,
  system: str = "",
  thinking: bool | None = None,
  too_long: str = "drop",
  reference: bool = False,
  steps: bool = False,
  max_steps: int = 16,
) -> Task:
  """GSM8K from local jsonl files, with a tokenizer of its own or a policy's.

  Solutions are by default the dataset's calculator annotations without the
  prose around them. The prose is not what is checked, it is three quarters of
  the tokens, and a policy of a few million parameters spends its capacity on
  it; the equations keep the reasoning and are as exact to check (small models
  were trained so on GSM8K by Deng et al. 2023, "Implicit Chain of Thought
  Reasoning via Knowledge Distillation"). The 1 % of answers without annotations
  become the bare `#### 18`. Only imitation sees solutions.

  Train problems are left out where the solution is too long, and those of
  either split where the question is, unless `too_long` says otherwise (`notes`
  counts). `answer_ids` are the numbers answered: equal numbers vote together.
  A completion that did not finish has no answer.

  Args:
    data_path: folder of `gsm8k_train.jsonl` and `gsm8k_test.jsonl`; None reads
      `$EXTREMUM_DATA`. With a tokenizer given, the test file is enough to
      evaluate.
    cache: folder for prepared data and the tokenizer, made once per content.
    solution: what demonstrations are: "equations", "plain" or "annotated".
    vocab_size: largest number of tokens of the task's own BPE.
    prompt_length: L; None is 256 with the own BPE, which holds every test
      question at `vocab_size` 2048, and 512 with another.
    completion_length: T; None is 128 with the own BPE, which holds every test
      solution as equations, and 512 with another, every one as prose.
    tokenizer: a Hugging Face folder; "" learns a BPE from the train split.
    chat, system, thinking, too_long: as of `language.Prompting`.
    instruction: a line after the question; None is one that says how to answer,
      and nothing with the own BPE.
    reference: whether to give the view "reference", for rewards of the
      likelihood of the reference answer.
    steps, max_steps: whether to score steps, and K, as of `text.build`.

  Returns:
    The task, which is not jittable.

  Raises:
    ValueError: missing data, an unknown solution, a tokenizer without EOS or
      without the chat template asked for, a vocabulary without room for the
      bytes, or lengths that no problem fits.
  """
  if solution not in SOLUTIONS:
    raise ValueError(choices.unknown("solution", solution, SOLUTIONS))
  files = json_lines.find(
    "gsm8k", data_path, ("test",) if tokenizer else json_lines.SPLITS
  )
  folder = (
    storage_paths.require_local(cache, "cache").expanduser()
    / f"gsm8k-{json_lines.fingerprint(files)}"
  )
  splits = {
    split: [_row(*texts, SOLUTIONS[solution]) for _, texts in rows]
    for split, rows in tfds.read(files, folder).items()
  }
  kept = folder / f"tokenizer-{solution}-{vocab_size}"
  spoken = prompting.find(tokenizer, splits, vocab_size, kept)
  if instruction is None:
    instruction = "" if spoken.own else INSTRUCTION
  if prompt_length is None:
    prompt_length = 256 if spoken.own else 512
  if completion_length is None:
    completion_length = 128 if spoken.own else 512
  return text_task.build(
    "gsm8k",
    splits,
    spoken,
    prompting.Prompting(chat, instruction, system, thinking, too_long),
    numbers.verify,
    shortest=lambda answer: f"{numbers.MARK} {answer}",
    prompt_length=prompt_length,
    completion_length=completion_length,
    files=files,
    settings=f"solution={solution}",
    mark=numbers.MARK if reference else "",
    steps=steps,
    max_steps=max_steps,
  )


def _row(
  question: str, answer: str, render: Callable[[str], str]
) -> prompting.Row:
  solution = render(answer.strip())
  return prompting.Row(
    question.strip(), solution, numbers.final_answer(solution)
  )
