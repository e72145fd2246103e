"""A question to a judge, and what the files of this folder share.

Axes: P prompts, S completions of each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from rewards.verifiers import Item, Outcome
from rewards.verifiers.judge import Complete

# P groups of S completions. All items of a group have the same prompt,
# reference and fields.
Groups = Sequence[Sequence[Item]]


@dataclasses.dataclass(frozen=True)
class Question:
  """A question about groups of completions, with the shape of its answer.

  Attributes:
    ask: `(groups, complete, workers) -> array`, float32 `[P, S]`, or
      `[P, S, S]` if `compares`. An entry is NaN if the judge raised an error or
      if its reply has another form than the one that was asked for. At most
      `workers` requests are sent at a time.
    compares: whether the judge compares pairs; entry [p, i, j] is then 1 if
      sample i is better than sample j, 0 if it is worse, and 1/2 for a tie.
  """

  ask: Callable[[Groups, Complete, int], np.ndarray]
  compares: bool = False


def of_samples(
  verify: Callable[[Sequence[Item], Complete, int], Sequence[Outcome]],
) -> Question:
  """Returns the question whose answer is the score of a verifier.

  Args:
    verify: `(items, complete, workers) -> outcomes`. An item whose verdict is
      unknown has no score.
  """

  def ask(groups: Groups, complete: Complete, workers: int) -> np.ndarray:
    items = [item for group in groups for item in group]
    outcomes = verify(items, complete, workers)
    scores = [
      outcome.score if outcome.verdict >= 0 else np.nan for outcome in outcomes
    ]
    return np.array(scores, np.float32).reshape(len(groups), -1)

  return Question(ask)
