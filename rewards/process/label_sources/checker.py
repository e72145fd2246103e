"""Exact labels: a step is good if the task's checker scores it above 0."""

from __future__ import annotations

from rewards.process.forest import Forest
from rewards.process.label_sources import base


def checker():
  """Labels the steps up to the first error by the checker of the task.

  Costs no tokens. It is the truth with which other sources are compared.
  """

  def label(forest: Forest) -> base.StepLabels:
    rows = base.root_rows(forest)
    values = (forest.samples.step_scores[rows] > 0).astype(float)
    mask = base.step_mask(forest, rows)
    return base.make(rows, values, base.until_first_zero(values, mask))

  return label
