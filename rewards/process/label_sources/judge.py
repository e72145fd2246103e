"""Labels from the verdicts of a judge about the steps of a sample."""

from __future__ import annotations

from rewards.process.forest import Forest
from rewards.process.label_sources import base


def judge():
  """Labels the steps up to the first one that the forest's judge calls wrong.

  A judge is a program or a model that reads a sample and calls each of its
  steps right or wrong (`Forest.judge`).
  """

  def label(forest: Forest) -> base.StepLabels:
    rows = base.root_rows(forest)
    values = forest.judge(rows).astype(float)
    mask = base.step_mask(forest, rows)
    return base.make(rows, values, base.until_first_zero(values, mask))

  return label
