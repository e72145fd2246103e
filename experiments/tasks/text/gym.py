"""Puzzles of reasoning-gym: generated from seeds, judged by their own scorers.

Problem i of training is the library's entry of seed i, a held-out problem that
of seed 2^30 + i: no data, and no seed on both sides. A question that comes up
twice is left out the second time, and in training too if it is held out (small
puzzles have few questions; `notes` counts).

The policy is to answer in `<answer>...</answer>`, or behind `####`. The score
is that of the dataset's own scorer, in [0, 1], right is full marks
(`rewards.verifiers.gym`); equal answers vote together.

The datasets are those of `rewards.verifiers.gym.ALLOWED`, an allow-list with
the reasons for what is not on it. The library is the extra `.[gym]`.

Usage:
  python -m experiments.evaluate --policy FOLDER \\
    --task "gym(dataset='chain_sum', options={'min_digits': 2})"

Source: Stojanovski et al. 2025, "REASONING GYM: Reasoning Environments for
Reinforcement Learning with Verifiable Rewards".
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

from experiments.tasks.task import Task
from experiments.tasks.text import prompting, text_task
from models import storage_paths
from rewards.verifiers import gym as puzzles
from rewards.verifiers.pool import Pool

INSTRUCTION = "Reason step by step, and end with <answer>ANSWER</answer>."
HELD_OUT = 2**30  # the first seed of what is held out


def gym(
  dataset: str = "chain_sum",
  options: Mapping[str, Any] | None = None,
  problems: int = 2000,
  held_out: int = 200,
  cache: str = "~/.cache/extremum",
  tokenizer: str = "",
  vocab_size: int = 512,
  prompt_length: int = 512,
  completion_length: int = 512,
  chat: bool | str = "auto",
  instruction: str | None = None,
  system: str = "",
  thinking: bool | None = None,
  too_long: str = "drop",
  workers: int = 4,
  timeout: float = 10.0,
) -> Task:
  """A dataset of reasoning-gym.

  Args:
    dataset: a name of `puzzles.ALLOWED`.
    options: settings of the dataset, `{"min_terms": 2}` of chain_sum say.
    problems: how many to generate for training.
    held_out: how many to generate for the test set.
    cache: folder for the task's own tokenizer.
    tokenizer: a Hugging Face folder; "" learns a BPE from the train split.
    vocab_size: largest number of tokens of the task's own BPE.
    prompt_length: L.
    completion_length: T.
    chat, system, thinking, too_long: as of `language.Prompting`.
    instruction: a line after the question; None is one that says where the
      answer goes, and nothing with the own BPE.
    workers: processes that judge completions.
    timeout: seconds that one completion may take, and is unscored beyond.

  Returns:
    The task, which is not jittable.

  Raises:
    ValueError: reasoning-gym is not installed, the dataset is not allowed or
      refuses the options, a number of problems that is not positive or too
      large, or what `math` refuses of the same settings.
  """
  options = dict(options or {})
  for what, size in (("problems", problems), ("held_out", held_out)):
    if not 1 <= size <= HELD_OUT:
      raise ValueError(f"{what}={size} must be from 1 to 2^30")
  test, left_out = _rows(dataset, options, HELD_OUT, held_out, set())
  questions = {prompting.normalized(row.question) for row in test}
  train, repeated = _rows(dataset, options, 0, problems, questions)
  if not train:
    raise ValueError(
      f"{dataset} with options={options} has no question that is not held out; "
      f"allowed: fewer than held_out={held_out}, or other options"
    )
  splits = {"train": train, "test": test}
  told = repr((dataset, options, problems, held_out)).encode()
  kept = storage_paths.require_local(cache, "cache").expanduser() / (
    f"gym-{dataset}-{hashlib.sha256(told).hexdigest()[:16]}"
  )
  if not tokenizer:
    kept.mkdir(parents=True, exist_ok=True)
  spoken = prompting.find(
    tokenizer, splits, vocab_size, kept / f"tokenizer-{vocab_size}"
  )
  if instruction is None:
    instruction = "" if spoken.own else INSTRUCTION
  settings = f"dataset={dataset!r}"
  if options:
    settings += f", options={options!r}"
  task = text_task.build(
    "gym",
    splits,
    spoken,
    prompting.Prompting(chat, instruction, system, thinking, too_long),
    Pool(puzzles.Scorer(dataset, options), workers=workers, timeout=timeout),
    shortest=_tagged,
    prompt_length=prompt_length,
    completion_length=completion_length,
    settings=settings,
  )
  note = (
    f"{repeated} train and {left_out} test questions came up before, left out"
  )
  return dataclasses.replace(task, notes=(*task.notes, note))


def _rows(
  dataset: str,
  options: Mapping[str, Any],
  seed: int,
  size: int,
  held_out: set[str],
) -> tuple[list[prompting.Row], int]:
  """Returns the distinct problems of `size` seeds, and the number left out.

  Args:
    dataset: name of the dataset.
    options: settings of the dataset.
    seed: first seed.
    size: number of seeds.
    held_out: normalized questions that are left out too.
  """
  entries = puzzles.make(dataset, seed, size, options)
  known, rows = set(), []
  for i in range(size):
    entry = entries[i]
    question, answer = entry["question"].strip(), entry["answer"].strip()
    if question not in known and prompting.normalized(question) not in held_out:
      known.add(question)
      rows.append(
        prompting.Row(question, _tagged(answer), answer, {"entry": entry})
      )
  return rows, size - len(rows)


def _tagged(answer: str) -> str:
  return f"<answer>{answer}</answer>"
