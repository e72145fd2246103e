"""A forest of samples: samples of problems, some of which share a prefix.

Label sources (`rewards.process.label_sources`) read a forest and let it grow. A
*state* is a prefix of a sample that ends with a reasoning step; the state of 0
steps is the prompt. To *branch* at a state is to sample continuations of it;
each becomes a sample of the forest, which shares the steps of its prefix with
the sample it branches from. A forest grows, so that its samples are rows of
arrays whose first axis gets longer. All arrays are numpy arrays on the host.

Axes: N samples, T completion tokens, K reasoning steps, Q problems.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rl import UsageError


class StepChanges(NamedTuple):
  """Other texts of a step, each as token ids.

  Attributes:
    mutations: steps with an error, although some of them may be right.
    refactorings: steps that are written in another way and mean the same.
  """

  mutations: list[list[int]]
  refactorings: list[list[int]]


@dataclasses.dataclass
class Samples:
  """Rows of a forest.

  Attributes:
    problems: `[N]` int, number of the problem of each sample.
    correct: `[N]` int8, verdict of each sample: 1 right, 0 wrong, -1 unknown.
    answer_ids: `[N]` int32, equal for equal answers; -1 is no answer.
    completions: `[N, T]` int32 token ids.
    log_probs: `[N, T]` float32, log-probs of the tokens under the policy that
      sampled them, in nats; 0 on padding, and in samples with a changed step,
      which no policy sampled.
    lengths: `[N]` int, number of tokens of each sample.
    step_ids: `[N, T]` int, reasoning step of each token; -1 outside of steps.
    num_steps: `[N]` int, number of steps of each sample, at most K.
    parents: `[N]` int, sample from which a sample branches; -1 for a sample
      that starts from the prompt.
    num_shared: `[N]` int, number of steps that a sample shares with its parent.
    step_scores: `[N, K]` float32, scores of the steps by the task's checker.
  """

  problems: np.ndarray
  correct: np.ndarray
  answer_ids: np.ndarray
  completions: np.ndarray
  log_probs: np.ndarray
  lengths: np.ndarray
  step_ids: np.ndarray
  num_steps: np.ndarray
  parents: np.ndarray
  num_shared: np.ndarray
  step_scores: np.ndarray

  def select(self, rows: np.ndarray) -> Samples:
    """Returns some of the rows."""
    return Samples(
      **{
        field.name: getattr(self, field.name)[rows]
        for field in dataclasses.fields(self)
      }
    )

  def append(self, other: Samples) -> None:
    """Adds the rows of `other` at the end."""
    for field in dataclasses.fields(self):
      both = getattr(self, field.name), getattr(other, field.name)
      setattr(self, field.name, np.concatenate(both))


class Forest(abc.ABC):
  """Samples of Q problems, with a policy that continues them.

  Attributes:
    samples: all samples, of which the first come from the prompts.
    num_roots: number of these first samples.
    max_steps: K.
    tokens: number of tokens that branches have sampled so far.
  """

  def __init__(self, samples: Samples, max_steps: int) -> None:
    self.samples = samples
    self.num_roots = len(samples.problems)
    self.max_steps = max_steps
    self.tokens = 0

  @abc.abstractmethod
  def sample(self, rows: np.ndarray, steps: np.ndarray, count: int) -> Samples:
    """Samples `count` continuations of each state.

    Args:
      rows: `[R]`, a sample that passes each state.
      steps: `[R]`, number of steps of each state, below the number of steps of
        the sample.
      count: number of continuations of a state. Those of a state that is
        sampled again differ from the earlier ones.

    Returns:
      R times `count` samples, the continuations of one state in a row.
    """

  def branch(
    self, rows: np.ndarray, steps: np.ndarray, count: int
  ) -> np.ndarray:
    """Samples continuations of states, and adds them to the forest.

    After the last step of a sample there is nothing to sample: the result is
    then `count` times the sample itself.

    Args:
      rows: `[R]`, a sample that passes each state.
      steps: `[R]`, number of steps of each state, from 0 to the number of steps
        of the sample.
      count: number of continuations of each state.

    Returns:
      `[R, count]` int, the rows of the new samples.
    """
    rows, steps = np.asarray(rows, int), np.asarray(steps, int)
    result = np.repeat(rows[:, None], count, 1)
    (unfinished,) = np.nonzero(steps < self.samples.num_steps[rows])
    if not len(unfinished):
      return result
    new = self.sample(rows[unfinished], steps[unfinished], count)
    first = len(self.samples.problems)
    self.samples.append(new)
    result[unfinished] = first + np.arange(len(new.problems)).reshape(-1, count)
    prefix = (new.step_ids >= 0) & (new.step_ids < new.num_shared[:, None])
    self.tokens += int((new.lengths - prefix.sum(-1)).sum())
    return result

  def first_errors(self, rows: np.ndarray) -> np.ndarray:
    """Returns the first step of samples that a judge calls wrong.

    Returns:
      `[R]` int, counted from 0; -1 if no step is wrong, and -2 if the judge has
      no verdict.

    Raises:
      UsageError: the forest has no judge.
    """
    del rows
    raise UsageError(
      "these labels need a judge, and there is none; use a label source that "
      "does without, such as monte_carlo"
    )

  def step_changes(self, row: int, step: int) -> StepChanges:
    """Returns changes of a step after which the sample still fits into T.

    Raises:
      UsageError: the forest cannot change steps.
    """
    del row, step
    raise UsageError(
      "these labels need changes of steps, and there are none; use a label "
      "source that does without, such as monte_carlo"
    )

  def write(
    self, rows: np.ndarray, steps: np.ndarray, texts: Sequence[Sequence[int]]
  ) -> Samples:
    """Returns judged copies of samples in each of which one step is replaced.

    Args:
      rows: `[R]`, the samples to copy.
      steps: `[R]`, the step of each that is replaced, counted from 0.
      texts: R sequences of token ids, the new steps without an end token.

    Raises:
      UsageError: the forest cannot change steps.
    """
    del rows, steps, texts
    raise UsageError("this forest cannot write samples")

  def replace_steps(
    self, rows: np.ndarray, steps: np.ndarray, texts: Sequence[Sequence[int]]
  ) -> np.ndarray:
    """Adds copies of samples in each of which one step is replaced.

    A copy shares the steps before the new one with its sample.

    Args:
      rows, steps, texts: same as in `write`.

    Returns:
      `[R]` int, the rows of the copies.
    """
    first = len(self.samples.problems)
    if len(rows):
      self.samples.append(self.write(rows, steps, texts))
    return first + np.arange(len(rows))

  def success_rates(
    self, rows: np.ndarray, steps: np.ndarray, count: int
  ) -> np.ndarray:
    """Branches at states; returns the share of right continuations, `[R]`.

    Continuations without a verdict do not count; the share is 0 if none has
    one.
    """
    branches = self.branch(rows, steps, count)  # lets `samples` grow
    correct = self.samples.correct[branches]
    return (correct == 1).sum(-1) / np.maximum((correct >= 0).sum(-1), 1)

  def problem_rates(self) -> np.ndarray:
    """Returns the share of right samples from the prompt of each problem.

    Returns:
      `[N]`, the rate of the problem of each sample. Of the samples that the
      forest began with, those that have a verdict are counted.
    """
    problems = self.samples.problems
    first = problems[: self.num_roots]
    correct = self.samples.correct[: self.num_roots]
    right = np.bincount(first, correct == 1)
    rates = right / np.maximum(np.bincount(first, correct >= 0), 1)
    return rates[problems]

  def state(self, row: int, steps: int) -> tuple[int, int]:
    """Returns the identity of a state: the sample that reached it first.

    Args:
      row: a sample that passes the state.
      steps: number of steps of the state.

    Returns:
      The first sample of the forest that passes the state, and its number of
      steps. All samples of a problem pass the state of 0 steps.
    """
    samples = self.samples
    if steps == 0:
      of_problem = samples.problems[: self.num_roots] == samples.problems[row]
      return int(np.argmax(of_problem)), 0
    while samples.parents[row] >= 0 and steps <= samples.num_shared[row]:
      row = int(samples.parents[row])
    return row, steps
