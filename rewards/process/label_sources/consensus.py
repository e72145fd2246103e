"""Lessons of PRMs: keeps samples in which two sources find the same error."""

from __future__ import annotations

import numpy as np

from rewards.process import label_sources
from rewards.process.forest import Forest
from rewards.process.label_sources import base


def first_errors(labels: base.StepLabels) -> np.ndarray:
  """Returns the first step that is labelled 0, `[R]`; -1 if none is."""
  is_error = (labels.weights > 0) & (labels.values < 0.5)
  return np.where(is_error.any(-1), is_error.argmax(-1), -1)


def consensus(
  first: str = "monte_carlo", second: str = "judge", least: int = 1
):
  """Labels the samples for which two label sources agree on the first error.

  Both may find none. The labels are 1 before the first error and 0 at it. The
  paper keeps about 40 % of its samples.
  Source: Zhang et al. 2025, The Lessons of Developing Process Reward Models in
  Mathematical Reasoning.

  Args:
    first: name of a label source with hard labels.
    second: name of another one.
    least: `least` of a source `monte_carlo`.
  """

  def source_of(name: str):
    settings = {"least": least} if name == "monte_carlo" else {}
    return label_sources.get(name, **settings)

  sources = source_of(first), source_of(second)

  def label(forest: Forest) -> base.StepLabels:
    labels = [source(forest) for source in sources]
    rows, *indices = np.intersect1d(
      labels[0].rows, labels[1].rows, return_indices=True
    )
    errors = [
      first_errors(one)[index]
      for one, index in zip(labels, indices, strict=True)
    ]
    agrees = errors[0] == errors[1]
    rows, first_error = rows[agrees], errors[0][agrees]
    mask = base.step_mask(forest, rows)
    return base.make(rows, *base.from_first_error(first_error, mask))

  label.reads_judge = any(map(label_sources.reads_judge, sources))
  return label
