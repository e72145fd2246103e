"""A judge looks for a wrong step in the solutions of right answers."""

from __future__ import annotations

import numpy as np

from rewards.judged import base
from rewards.verifiers import step_judge


def flawed(instruction: str = step_judge.CHECKING) -> base.Question:
  """Asks for the first wrong step of each right answer; 1 if there is one.

  The reward `flaw_aware(flawed='NAME')` reads the answer to the question NAME.
  A sample that is not right is 0 without a request, and so is one without
  steps. The steps are those of the task, or else the lines of the completion.
  Source: Ding et al. 2025, FAPO: Flawed-Aware Policy Optimization for Efficient
  and Reliable Reasoning.

  Args:
    instruction: system message. The judge must reply with {"first_error": n}, n
      the number of the step counted from 1, or 0 for none.
  """

  def ask(groups, complete, workers):
    items = [item for group in groups for item in group]
    chosen = [
      i
      for i, item in enumerate(items)
      if item.meta.get("correct") == 1 and item.meta.get("steps")
    ]
    errors = step_judge.first_errors(
      [
        step_judge.Solution(items[i].prompt, items[i].meta["steps"])
        for i in chosen
      ],
      complete,
      instruction,
      workers,
    )
    values = np.zeros(len(items), np.float32)
    values[chosen] = [
      np.nan if error == step_judge.UNKNOWN else float(error >= 0)
      for error in errors
    ]
    return values.reshape(len(groups), -1)

  return base.Question(ask)
