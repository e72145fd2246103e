"""Lines of training data from the right and wrong samples of a policy.

The lines are those that `experiments.training.training_texts` and
`experiments.verify` read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from experiments.evaluation import evaluator, policy_loader
from experiments.logging import progress
from experiments.tasks.task import Problems, Task
from experiments.training.training_texts import (
  CHOSEN,
  PROMPT,
  REJECTED,
  SOLUTION,
)
from rl.sampling import generation

Line = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Lines:
  """Lines from the samples of a policy.

  Attributes:
    pairs: a line `{prompt, chosen, rejected}` of each problem that has a right
      and a wrong sample.
    demonstrations: lines `{prompt, solution}` of right samples.
    responses: a line `{question, reference, response, label}` of each distinct
      sample that `select` takes, whose verdict is the label.
    problems: a line of each problem, `{prompt, answer, ...}` with the fields of
      its line in the dataset and "pass_rate", the share of right samples among
      those with a verdict; the task `jsonl` reads them. A problem without any
      verdict has none.
    accuracy: share of right samples among those with a verdict.
  """

  pairs: list[Line]
  demonstrations: list[Line]
  responses: list[Line]
  problems: list[Line]
  accuracy: float


def collect(
  loaded: policy_loader.LoadedPolicy,
  problems: Problems,
  key: jax.Array,
  sampling: generation.Sampling,
  batch: int,
  update: progress.Update,
  right_samples: int = 1,
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
    right_samples: largest number of right samples of a problem among the
      demonstrations.
  """
  pairs, demonstrations, responses, verdicts = [], [], [], []
  problem_lines = []
  for result in evaluator.score_in_batches(
    loaded.task,
    loaded.policy,
    loaded.params,
    problems,
    batch,
    key,
    sampling,
    loaded.sharding,
  ):
    verdicts.append(result.arrays["correct"])
    items = loaded.task.items(result.problems)
    texts = select(loaded.task, result)
    for item, (prompt, right, wrong) in zip(items, texts, strict=True):
      demonstrations += [
        {PROMPT: prompt, SOLUTION: text} for text in right[:right_samples]
      ]
      if right and wrong:
        pairs.append({PROMPT: prompt, CHOSEN: right[0], REJECTED: wrong[0]})
      responses += [
        {
          "question": str(item.prompt),
          "reference": str(item.reference),
          "response": text,
          "label": label,
        }
        for label, of_label in ((True, right), (False, wrong))
        for text in of_label
      ]
    for item, correct in zip(items, verdicts[-1], strict=True):
      if num_judged := int((correct >= 0).sum()):
        problem_lines.append(
          {
            **item.meta,
            PROMPT: str(item.prompt),
            "answer": str(item.reference),
            "pass_rate": int((correct == 1).sum()) / num_judged,
          }
        )
    update(result.done)
  judged = np.concatenate(verdicts)
  accuracy = (judged == 1).sum() / max((judged >= 0).sum(), 1)
  return Lines(pairs, demonstrations, responses, problem_lines, accuracy)


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
) -> Iterator[tuple[str, list[str], list[str]]]:
  """Yields the texts of the right and of the wrong samples of each problem.

  Samples that the length limit cut, whose verdict is unknown, or that have no
  text are not taken, and equal texts only once.

  Args:
    task: the task.
    result: samples of problems; of its arrays, "correct" is read.

  Yields:
    The prompt, the right texts and the wrong ones, in the order of the samples.
  """
  samples = result.samples
  for i, prompt in enumerate(task.prompt_texts(result.problems)):
    texts_by_verdict = []
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
      distinct = dict.fromkeys(text for text in texts if text.strip())
      texts_by_verdict.append(list(distinct))
    yield prompt, *texts_by_verdict
