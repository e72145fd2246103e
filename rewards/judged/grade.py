"""A judge grades a completion, beside the reference answer if there is one."""

from __future__ import annotations

from rewards.judged import base
from rewards.verifiers import llm_judge
from rl import UsageError


def grade(
  low: float = 0.0, high: float = 10.0, instruction: str = ""
) -> base.Question:
  """Asks for a grade x from `low` to `high`; the score is its place in between.

    score = (x - low) / (high - low), from 0 to 1

  A completion that says nothing (`llm_judge.says_nothing`) scores 0 without a
  request.
  Source: Zheng et al. 2023, Judging LLM-as-a-Judge with MT-Bench and Chatbot
  Arena (single answer grading).

  Args:
    low: lowest grade.
    high: highest grade.
    instruction: system message in place of `llm_judge.GRADING`, with the fields
      `{low}` and `{high}`. The judge must reply with {"score": x}.

  Raises:
    UsageError: `low` is not below `high`.
  """
  if not low < high:
    raise UsageError(f"low = {low} must be below high = {high}")

  def verify(items, complete, workers):
    return llm_judge.graded(
      items,
      complete,
      low=low,
      high=high,
      instruction=instruction or llm_judge.GRADING,
      workers=workers,
    )

  return base.of_samples(verify)
