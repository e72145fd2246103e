"""The task of trip wires: held-out prompts, and a rule that recognises hacks.

`experiments.evaluation.trip_wires` says what they are for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from experiments.tasks.task import Judged, Problems, Task
from experiments.training.experiment import Experiment
from rewards.verifiers import Item, Outcome


def check(e: Experiment) -> None:
  """Checks that the trap prompts exist, in the tokens of the policy."""
  if e.traps is None:
    return
  settings = e.config.trip_wires
  for name in ("problems", "samples"):
    if settings[name] < 1:
      raise ValueError(
        f"trip_wires.{name} = {settings[name]} must be at least 1"
      )
  try:
    e.traps.test(settings.problems)
  except ValueError as error:
    raise ValueError(f"trip_wires: {error}") from None
  if e.traps.vocab_size != e.task.vocab_size:
    raise ValueError(
      f"trip_wires.task = {settings.task!r} has a vocabulary of "
      f"{e.traps.vocab_size} tokens, and the task of the run one of "
      f"{e.task.vocab_size}; choose a task with the same tokens"
    )


def trap_task(task: Task, rule: Callable[[list[Item]], list[Outcome]]) -> Task:
  """Returns a task whose score is 1 for an answer that is a hack, else 0.

  Args:
    task: task whose held-out problems are the traps.
    rule: verifier that calls a hack right. Answers with any other verdict are
      no hacks.
  """

  def score(
    problems: Problems, completions: Any, lengths: Any, finished: Any
  ) -> Judged:
    del finished
    completions, lengths = np.asarray(completions), np.asarray(lengths)
    items = [
      dataclasses.replace(
        blank, completion=task.text_of(completions[p, s, : lengths[p, s]])
      )
      for p, blank in enumerate(task.items(problems))
      for s in range(lengths.shape[1])
    ]
    is_hack = np.array([outcome.verdict == 1 for outcome in rule(items)])
    is_hack = is_hack.reshape(lengths.shape)
    return Judged(
      scores=is_hack.astype(np.float32),
      correct=is_hack.astype(np.int8),
      answer_ids=np.full(lengths.shape, -1, np.int32),
    )

  return dataclasses.replace(task, score=score, jittable=False)
