"""Labels of the steps of a forest, and what label sources share.

Axes: R labelled samples, K reasoning steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rewards.process.forest import Forest
from rl import UsageError


class StepLabels(NamedTuple):
  """Labels of the steps of some samples of a forest.

  Attributes:
    rows: `[R]` int, the labelled samples, each at most once.
    values: `[R, K]` float32 in [0, 1]; 0 where the weight is 0.
    weights: `[R, K]` float32; 0 for steps without a label.
  """

  rows: np.ndarray
  values: np.ndarray
  weights: np.ndarray


def make(rows: np.ndarray, values: np.ndarray, weights: np.ndarray):
  """Returns `StepLabels` in float32, without samples that have no label."""
  weights = np.asarray(weights, np.float32)
  values = np.where(weights > 0, values, 0).astype(np.float32)
  labelled = (weights > 0).any(-1)
  return StepLabels(
    np.asarray(rows)[labelled], values[labelled], weights[labelled]
  )


def root_rows(forest: Forest) -> np.ndarray:
  """Returns the samples from the prompts that have a step and a verdict."""
  samples = forest.samples
  usable = (samples.num_steps > 0) & (samples.correct >= 0)
  return np.flatnonzero(usable[: forest.num_roots])


def step_mask(forest: Forest, rows: np.ndarray) -> np.ndarray:
  """Returns which steps of samples exist, `[R, K]` bool."""
  return np.arange(forest.max_steps) < forest.samples.num_steps[rows][:, None]


def step_rates(forest: Forest, rows: np.ndarray, count: int) -> np.ndarray:
  """Branches after every step; returns the share of right continuations.

  The rate after the last step is the verdict of the sample.

  Args:
    forest: the forest.
    rows: `[R]`, samples.
    count: number of continuations after each step.

  Returns:
    `[R, K]` float64; 0 for steps that do not exist.
  """
  mask = step_mask(forest, rows)
  index, step = np.nonzero(mask)
  rates = np.zeros(mask.shape)
  rates[mask] = forest.success_rates(rows[index], step + 1, count)
  return rates


def check_least(least: int, continuations: int) -> None:
  """Raises a UsageError if `least` is not in 1..`continuations`."""
  if not 1 <= least <= continuations:
    nearest = min(max(least, 1), continuations)
    raise UsageError(
      f"least = {least} must be between 1 and {continuations}, the number of "
      f"continuations; the nearest valid value is {nearest}"
    )


def until_first_zero(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
  """Returns the weights, with 0 after the first step that is labelled 0.

  Args:
    values: `[R, K]` labels.
    weights: `[R, K]`.
  """
  is_zero = (weights > 0) & (values == 0)
  zeros_before = np.cumsum(is_zero, -1) - is_zero
  return np.where(zeros_before > 0, 0.0, weights)


def balance_samples(labels: StepLabels, correct: np.ndarray) -> StepLabels:
  """Leaves out samples, so that as many are right as are wrong.

  Of the verdict that more samples have, samples are drawn at random.

  Args:
    labels: labels.
    correct: `[R]` bool, verdicts of the labelled samples.
  """
  is_kept = (
    balance_steps(correct[:, None], np.ones((len(correct), 1)))[:, 0] > 0
  )
  return StepLabels(*(x[is_kept] for x in labels))


def balance_steps(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
  """Returns the weights with as many labels 1 as labels 0 at each step.

  Of the label that more samples have at step k, labels are drawn at random. The
  same samples are drawn in every call.

  Args:
    values: `[R, K]`, labels 0 and 1.
    weights: `[R, K]`; 0 for steps without a label.
  """
  is_one, is_zero = ((weights > 0) & (values == label) for label in (1.0, 0.0))
  counts = np.minimum(is_one.sum(0), is_zero.sum(0))
  # Samples of a problem are next to each other, so that the first ones would be
  # those of few problems.
  order = np.random.default_rng(0).permutation(len(values))
  rank = np.zeros(values.shape, int)
  for is_label in (is_one, is_zero):
    rank[order] += np.where(is_label[order], np.cumsum(is_label[order], 0), 0)
  return np.where(rank <= counts, weights, 0.0)


def from_first_error(first: np.ndarray, mask: np.ndarray):
  """Returns values and weights: 1 before the first error, 0 at it.

  Args:
    first: `[R]` int, step of the first error; -1 for no error. Steps after it
      have weight 0.
    mask: `[R, K]` bool, steps that exist.
  """
  step = np.arange(mask.shape[-1])
  first = first[:, None]
  values = np.where((first < 0) | (step < first), 1.0, 0.0)
  return values, mask & ((first < 0) | (step <= first))
