"""Exact labels: the sign of the score that the task's checker gives a step."""

from __future__ import annotations

import zlib

import numpy as np

from rewards.process.forest import Forest
from rewards.process.label_sources import base
from rl import UsageError


def checker(noise: float = 0.0, until_error: bool = True):
  """Labels steps by the checker of the task, up to the first error.

  A step is good if its score is above 0 and bad if it is below 0. A score of 0
  judges nothing, such as that of a line of prose: the step has no label. Costs
  no tokens. It is the truth with which other sources are compared.

  Args:
    noise: probability that a label is flipped, at random, before the labels
      after the first error are dropped. A study can then compare a model with
      the exact labels, which no model can surpass by much.
    until_error: whether the steps after the first error have no label. Where
      steps are judged apart from those before, such as the lines of a list, the
      labels of all steps say more.

  Raises:
    UsageError: `noise` is not in [0, 1].
  """
  if not 0 <= noise <= 1:
    raise UsageError(f"noise = {noise} must be from 0 to 1")

  def label(forest: Forest) -> base.StepLabels:
    rows = base.root_rows(forest)
    scores = forest.samples.step_scores[rows]
    values = (scores > 0).astype(float)
    values = np.where(_draws(forest, rows) < noise, 1 - values, values)
    mask = base.step_mask(forest, rows) & (scores != 0)
    if until_error:
      mask = base.until_first_zero(values, mask)
    return base.make(rows, values, mask)

  return label


def _draws(forest: Forest, rows: np.ndarray) -> np.ndarray:
  """Returns numbers in [0, 1) that do not depend on other samples, `[R, K]`."""
  texts = forest.samples.completions[rows]
  # A model that reads the text of a sample cannot predict its numbers, because
  # they depend on its row, too.
  seeds = [
    [int(row), zlib.crc32(text)] for row, text in zip(rows, texts, strict=True)
  ]
  return np.array(
    [np.random.default_rng(seed).random(forest.max_steps) for seed in seeds]
  ).reshape(len(rows), forest.max_steps)
