"""A judge compares every two completions of a prompt."""

from __future__ import annotations

import numpy as np

from rewards.judged import base
from rewards.verifiers import llm_judge


def preference(
  swap: bool = True, with_reference: bool = False
) -> base.Question:
  """Asks which of two completions of a prompt is better, for every pair.

  Methods that compare pairs, such as `brpo_writing` and `pref_grpo`, read the
  answers. A prompt with S samples needs S (S - 1) requests, or half as many
  without `swap`.
  Source: Zheng et al. 2023, Judging LLM-as-a-Judge with MT-Bench and Chatbot
  Arena (pairwise comparison with swapped positions).
  Quantity: task/preferences.

  Args:
    swap: whether each pair is sent in both orders. If the preference changes
      with the order, the pair is a tie.
    with_reference: whether the judge sees the reference answer.
  """

  def ask(groups, complete, workers):
    return np.stack(
      [
        llm_judge.preferences(
          group[0].prompt,
          [item.completion for item in group],
          complete,
          swap,
          workers,
          group[0].reference if with_reference else "",
        )
        for group in groups
      ]
    )

  return base.Question(ask, base.PAIRS)
