"""reasoning-gym: generated puzzles, judged by the library's own scorers.

The task reads no files: train problem i is the library's problem of seed i, and
held-out problem i is that of seed 2^30 + i, so no seed is in both splits.
Different seeds may give the same question, in small puzzles often. A question
that is in the same split already is left out, and a train question that is also
held out is left out of training (`notes` counts both).

A completion ends in `<answer>...</answer>` or `#### ...`. The dataset's own
scorer gives it a score in [0, 1], and a completion with the score 1 is right
(`rewards.verifiers.gym`). Equal answers have equal `answer_ids`.

The library is the extra `.[gym]`. `rewards.verifiers.gym.ALLOWED` lists the
datasets that can be used, and gives the reasons why others cannot.

Usage:
  python -m experiments.evaluate --policy FOLDER \\
    --task "gym(dataset='chain_sum', options={'min_digits': 2})"

Source: Stojanovski et al. 2025, "REASONING GYM: Reasoning Environments for
Reinforcement Learning with Verifiable Rewards".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.data import overlap
from experiments.tasks.task import Task
from experiments.tasks.text import text_options, text_task
from experiments.tasks.text.text_options import Example, TextOptions
from rewards.verifiers import gym as puzzles
from rewards.verifiers.pool import Pool
from rl import UsageError

INSTRUCTION = "Reason step by step, and end with <answer>ANSWER</answer>."
FIRST_TEST_SEED = 2**30


@text_options.with_text_options(vocab_size=512)
def gym(
  text_options: TextOptions,
  dataset: str = "chain_sum",
  options: Mapping[str, Any] | None = None,
  problems: int = 2000,
  held_out: int = 200,
  workers: int = 4,
  timeout: float = 10.0,
) -> Task:
  """A dataset of reasoning-gym.

  Args:
    text_options: settings of all text tasks.
    dataset: one of `rewards.verifiers.gym.ALLOWED`.
    options: settings of the dataset, such as `{"min_terms": 2}` for chain_sum.
    problems: number of train seeds.
    held_out: number of held-out seeds.
    workers: number of processes that judge completions.
    timeout: seconds to judge one completion. A completion that takes longer is
      wrong if the worker process computed for half of that time, else unscored.

  Raises:
    UsageError: if reasoning-gym is not installed, the dataset is not allowed or
      refuses its options, a number of seeds is not in range, or
      `text_task.build` refuses the problems.
  """
  options = dict(options or {})
  for name, num_seeds in (("problems", problems), ("held_out", held_out)):
    if not 1 <= num_seeds <= FIRST_TEST_SEED:
      raise UsageError(f"{name}={num_seeds} must be from 1 to 2^30")
  test, num_test_repeats = _distinct_examples(
    puzzles.make(dataset, FIRST_TEST_SEED, held_out, options), excluded=set()
  )
  train, num_train_repeats = _distinct_examples(
    puzzles.make(dataset, 0, problems, options),
    excluded={overlap.normalize(example.question) for example in test},
  )
  if not train:
    raise UsageError(
      f"{dataset} with options={options} has no question that is not held out; "
      f"set held_out={held_out} to a smaller number, or use other options"
    )
  description = f"dataset={dataset!r}"
  if options:
    description += f", options={options!r}"
  return text_task.build(
    "gym",
    {"train": train, "test": test},
    text_options,
    Pool(puzzles.Scorer(dataset, options), workers=workers, timeout=timeout),
    instruction=INSTRUCTION,
    write_answer=_tag,
    description=description,
    notes=(
      f"{num_train_repeats} train and {num_test_repeats} test questions came "
      "up before, left out",  # a train question also if it is held out
    ),
  )


def _distinct_examples(
  entries: Any,  # a dataset of reasoning-gym, a sequence of dicts
  excluded: set[str],  # normalized questions that are left out
) -> tuple[list[Example], int]:
  """Returns one example per question, and the number of entries left out."""
  examples: dict[str, Example] = {}
  for i in range(len(entries)):
    entry = entries[i]
    question, answer = entry["question"].strip(), entry["answer"].strip()
    if overlap.normalize(question) not in excluded:
      meta = {"entry": entry}
      example = Example(question, _tag(answer), answer=answer, meta=meta)
      examples.setdefault(question, example)  # keeps the first of each question
  return list(examples.values()), len(entries) - len(examples)


def _tag(answer: str) -> str:
  """Returns the completion with this answer."""
  return f"<answer>{answer}</answer>"
