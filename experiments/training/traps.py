"""The task of trip wires: held-out prompts, and a rule that recognises hacks.

`experiments.evaluation.trip_wires` says what they are for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from experiments.tasks.task import Judged, Problems, Task, spec
from rewards.verifiers import Item, Outcome


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

  return dataclasses.replace(
    task, score=score, judged_spec=_judged_spec, jittable=False
  )


def _judged_spec(P: int, S: int, T: int) -> Judged:
  del T
  return Judged(
    scores=spec(np.float32, P, S),
    correct=spec(np.int8, P, S),
    answer_ids=spec(np.int32, P, S),
  )
