"""A question to a judge, and what the files of this folder share.

Axes: P prompts, S completions of each, K steps of a completion.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from rewards.verifiers import Item, Outcome, llm_judge
from rewards.verifiers.llm_judge import Complete
from rl import UsageError

# P groups of S completions. All items of a group have the same prompt,
# reference and fields.
Groups = Sequence[Sequence[Item]]


# What a question is about, and so the shape of its answers: samples [P, S],
# pairs of the samples of a prompt [P, S, S], the steps of samples [P, S, K], or
# prompts, for each of which the judge writes a reference answer.
SAMPLES, PAIRS, STEPS, PROMPTS = "samples", "pairs", "steps", "prompts"


@dataclasses.dataclass(frozen=True)
class Question:
  """A question about groups of completions, with the shape of its answers.

  Attributes:
    ask: `(groups, complete, workers) -> answers`, float32. One is NaN if the
      judge raised an error or if its reply has another form than the one that
      was asked for. At most `workers` requests are sent at a time.
      A question about prompts returns P texts instead, the reference answers
      that the judge has written; "" is none.
    about: `SAMPLES`; `PROMPTS`; `PAIRS`, where entry [p, i, j] is 1 if sample i
      is better than sample j, 0 if it is worse, and 1/2 for a tie; or `STEPS`,
      where entry [p, s, k] is the score of a step from -1 to 1, K is the
      largest number of steps of a sample, and entries of steps that do not
      exist are 0.
    embeds: whether the question asks for embeddings, which a server may have
      and a policy has not.
  """

  ask: Callable[[Groups, Complete, int], np.ndarray | list[str]]
  about: str = SAMPLES
  embeds: bool = False


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


def of_steps(
  score: Callable[[Item, Complete], Sequence[float]],
) -> Question:
  """Returns the question whose answers are the scores of steps.

  Args:
    score: `(item, complete) -> scores`, one score from -1 to 1 for each of the
      steps `item.meta["steps"]`. If it raises an error, the steps have no
      score. It is not called for a completion without steps.
  """

  def ask(groups: Groups, complete: Complete, workers: int) -> np.ndarray:
    items = [item for group in groups for item in group]
    counts = [len(item.meta["steps"]) for item in items]
    values = np.zeros((len(items), max(counts, default=0)), np.float32)

    def fill(i: int) -> None:
      try:
        values[i, : counts[i]] = score(items[i], complete)
      except Exception:  # a judge may raise any error
        values[i, : counts[i]] = np.nan

    chosen = [i for i, count in enumerate(counts) if count]
    llm_judge.in_threads(fill, chosen, workers)
    return values.reshape(len(groups), len(groups[0]), values.shape[-1])

  return Question(ask, STEPS)


def numbered_steps(item: Item) -> dict[str, str]:
  """Returns the steps of an item by their numbers, which begin with 1."""
  return {str(k): text for k, text in enumerate(item.meta["steps"], 1)}


def read_step_numbers(value: object, count: int) -> list[int]:
  """Returns the steps, counted from 0, that a judge names by their numbers.

  Args:
    value: a list of numbers from 1 to `count`.
    count: number of steps.

  Raises:
    UsageError: the value is anything else.
  """
  if not isinstance(value, list):
    raise UsageError(f"the judge names no list of steps: {value!r:.80}")
  numbers = []
  for number in value:
    is_integer = isinstance(number, int) and not isinstance(number, bool)
    if not is_integer or not 1 <= number <= count:
      raise UsageError(f"the judge names the step {number!r:.80} of {count}")
    numbers.append(number - 1)
  return numbers
