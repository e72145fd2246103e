"""Lines of training data from the right and wrong samples of a policy.

The lines are those that `experiments.training.training_texts` reads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import jax
import numpy as np

from experiments.evaluation import evaluator, policies
from experiments.logging import progress
from experiments.tasks.task import Problems, Task
from experiments.training.training_texts import (
  CHOSEN,
  PROMPT,
  REJECTED,
  SOLUTION,
)
from rl.sampling import generation

Line = dict[str, str]


@dataclasses.dataclass(frozen=True)
class Lines:
  """Lines from the samples of a policy.

  Attributes:
    pairs: a line `{prompt, chosen, rejected}` of each problem that has a right
      and a wrong sample.
    demonstrations: a line `{prompt, solution}` of each problem that has a right
      sample.
    accuracy: share of right samples among those with a verdict.
  """

  pairs: list[Line]
  demonstrations: list[Line]
  accuracy: float


def collect(
  loaded: policies.LoadedPolicy,
  problems: Problems,
  key: jax.Array,
  sampling: generation.Sampling,
  batch: int,
  update: progress.Update,
) -> Lines:
  """Samples a policy and selects lines from its judged samples.

  Args:
    loaded: the policy and its task.
    problems: problems of the task, as numpy arrays.
    key: PRNG key of the samples.
    sampling: settings of sampling.
    batch: largest number of problems that are sampled at a time.
    update: function called after each batch with the number of finished
      problems.
  """
  pairs, demonstrations, verdicts = [], [], []
  for result in evaluator.score_in_batches(
    *(loaded.task, loaded.policy, loaded.params, problems, batch, key),
    *(sampling, loaded.sharding),
  ):
    verdicts.append(result.arrays["correct"].ravel())
    for right, wrong in select(loaded.task, result):
      if right:
        demonstrations.append(right)
      if right and wrong:
        pairs.append(
          {
            PROMPT: right[PROMPT],
            CHOSEN: right[SOLUTION],
            REJECTED: wrong[SOLUTION],
          }
        )
    update(result.done)
  judged = np.concatenate(verdicts)
  accuracy = (judged == 1).sum() / max((judged >= 0).sum(), 1)
  return Lines(pairs, demonstrations, accuracy)


def distinct_problems(task: Task, key: jax.Array, count: int) -> Problems:
  """Returns the train problems of step 0, as numpy arrays, each once.

  Args:
    task: the task.
    key: PRNG key that selects the problems.
    count: number of problems that are drawn. A problem that is drawn again is
      not repeated, so that fewer may be returned.
  """
  problems = jax.tree.map(np.asarray, task.train(key, 0, count))
  _, first = np.unique(problems.ids, return_index=True)
  rows = np.sort(first)  # in the order in which they were drawn
  return jax.tree.map(lambda leaf: leaf[rows], problems)


def select(
  task: Task, result: evaluator.BatchResult
) -> Iterator[tuple[Line | None, Line | None]]:
  """Yields the first right and the first wrong sample of each problem.

  Samples that the length limit cut, or whose verdict is unknown, are not taken.

  Args:
    task: the task.
    result: samples of problems; of its arrays, "correct" is read.

  Yields:
    (right, wrong), each a line with a prompt and a solution, or None if there
    is no such sample.
  """
  samples = result.samples
  for i, prompt in enumerate(task.prompt_texts(result.problems)):
    lines: list[Line | None] = []
    for verdict in (1, 0):
      (candidates,) = np.nonzero(
        (result.arrays["correct"][i] == verdict) & samples.finished[i]
      )
      texts = (
        # Without the end token.
        task.decode(samples.completions[i, s, : samples.lengths[i, s] - 1])
        for s in candidates
      )
      # A blank completion cannot be a line of the file.
      text = next((text for text in texts if text.strip()), None)
      lines.append(None if text is None else {PROMPT: prompt, SOLUTION: text})
    yield lines[0], lines[1]
