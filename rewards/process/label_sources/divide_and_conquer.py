"""OmegaPRM: a tree whose wrong samples are searched for their first error."""

from __future__ import annotations

import math

import numpy as np

from rewards.process.forest import Forest
from rewards.process.label_sources import base


def priority(
  rate: float, length: int, alpha: float, beta: float, scale: int
) -> float:
  """Returns Q = alpha^(1 - MC) beta^(length / scale) of a sample of a state.

  Args:
    rate: MC, the success rate of the state.
    length: number of tokens of the sample after the state.
    alpha: base of the first factor, in (0, 1]: states near success come first.
    beta: base of the second factor, in (0, 1]: short samples come first.
    scale: L, in tokens.
  """
  return alpha ** (1 - rate) * beta ** (length / scale)


def exploration(total: int, visits: int, weight: float) -> float:
  """Returns U = weight sqrt(sum of all visits) / (1 + visits of the state)."""
  return weight * math.sqrt(total) / (1 + visits)


def divide_and_conquer(
  continuations: int = 8,
  searches: int = 4,
  alpha: float = 0.5,
  beta: float = 0.9,
  scale: int = 500,
  weight: float = 0.125,
):
  """Labels the states of a tree by their success rates, MC.

  For each problem, and `searches` times: of all wrong samples of states with
  0 < MC < 1, one with the largest Q + U (`priority`, `exploration`) is chosen.
  Its first error is found by halving. Each state that is tried gets MC, the
  share of right ones among `continuations` samples, and joins the tree, so that
  its own wrong samples can be chosen later. The samples from the prompt are
  those of the prompt's state. Every state with an MC is labelled with it once.
  Source: Luo et al. 2024, Improve Mathematical Reasoning by Automated Process
  Supervision (OmegaPRM). Its defaults are 100 searches a question.

  Args:
    continuations: number of samples of a state.
    searches: largest number of searches of a problem.
    alpha: base in Q for the success rate.
    beta: base in Q for the length.
    scale: L in Q, tokens.
    weight: factor of U.
  """

  def label(forest: Forest) -> base.StepLabels:
    trees = [_Tree(forest, rows) for rows in _rows_by_problem(forest)]
    for _ in range(searches):
      chosen = [
        (tree, *sample)
        for tree in trees
        if (sample := tree.choose(alpha, beta, scale, weight)) is not None
      ]
      _halve(forest, chosen, continuations)
    rates = {
      state: rate for tree in trees for state, rate in tree.rates.items()
    }
    return _labels(forest, rates)

  return label


class _Tree:
  """The states of one problem.

  Attributes:
    rates: `{state: MC}`; see `Forest.state`.
    visits: `{state: number of searches that started in it}`.
    pool: wrong samples that have not been searched, `[(state, row)]`.
  """

  def __init__(self, forest: Forest, rows: np.ndarray) -> None:
    self._forest = forest
    self.rates: dict[tuple[int, int], float] = {}
    self.visits: dict[tuple[int, int], int] = {}
    self.pool: list[tuple[tuple[int, int], int]] = []
    self.add(forest.state(int(rows[0]), 0), rows)

  def add(self, state: tuple[int, int], rows: np.ndarray) -> float:
    """Adds a state with the samples that continue it; returns its MC."""
    # Samples without a verdict do not count, and are not searched.
    correct = self._forest.samples.correct[rows]
    wrong = correct == 0
    rate = float((correct == 1).sum() / max((correct >= 0).sum(), 1))
    self.rates[state] = rate
    self.visits.setdefault(state, 0)
    if 0 < rate < 1:
      self.pool += [(state, int(row)) for row in rows[wrong]]
    return rate

  def choose(
    self, alpha: float, beta: float, scale: int, weight: float
  ) -> tuple[int, int] | None:
    """Takes the best sample out of the pool.

    Returns:
      The number of steps of its state, and the sample; None if the pool is
      empty.
    """
    if not self.pool:
      return None
    samples, total = self._forest.samples, sum(self.visits.values())

    def value(entry: tuple[tuple[int, int], int]) -> float:
      state, row = entry
      in_prefix = (samples.step_ids[row] >= 0) & (
        samples.step_ids[row] < state[1]
      )
      length = int(samples.lengths[row] - in_prefix.sum())
      return priority(
        self.rates[state], length, alpha, beta, scale
      ) + exploration(total, self.visits[state], weight)

    best = max(self.pool, key=value)
    self.pool.remove(best)
    state, row = best
    self.visits[state] += 1
    return state[1], row


def _halve(
  forest: Forest, chosen: list[tuple[_Tree, int, int]], continuations: int
) -> None:
  """Searches the first error of one sample of each tree, side by side."""
  # The state after `low` steps has hope, and that after `high` steps has none.
  ranges = [
    [tree, row, start, int(forest.samples.num_steps[row])]
    for tree, start, row in chosen
  ]
  while ranges := [one for one in ranges if one[3] - one[2] > 1]:
    rows = np.array([row for _, row, _, _ in ranges])
    middle = np.array([(low + high) // 2 for _, _, low, high in ranges])
    branches = forest.branch(rows, middle, continuations)
    for one, steps, new_rows in zip(ranges, middle, branches, strict=True):
      tree, row = one[:2]
      rate = tree.add(forest.state(row, int(steps)), new_rows)
      one[2 if rate > 0 else 3] = int(steps)


def _rows_by_problem(forest: Forest) -> list[np.ndarray]:
  """Returns the labelled samples that the forest began with, by problem."""
  rows = base.root_rows(forest)
  problems = forest.samples.problems[rows]
  return [rows[problems == problem] for problem in np.unique(problems)]


def _labels(
  forest: Forest, rates: dict[tuple[int, int], float]
) -> base.StepLabels:
  """Labels every state with a success rate, at the sample that owns it."""
  samples = forest.samples
  values = np.zeros((len(samples.problems), forest.max_steps))
  weights = np.zeros(values.shape)
  roots = base.root_rows(forest)
  # The last step of every sample from the prompt has its verdict as label.
  last = samples.num_steps[roots] - 1
  values[roots, last], weights[roots, last] = samples.correct[roots] == 1, 1
  for (row, steps), rate in rates.items():
    if steps:  # the state of the prompt has no label
      values[row, steps - 1], weights[row, steps - 1] = rate, 1
  return base.make(np.arange(len(values)), values, weights)
