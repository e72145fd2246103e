"""Exact labels: the sign of the score that the task's checker gives a step."""

from __future__ import annotations

from rewards.process.forest import Forest
from rewards.process.label_sources import base


def checker():
  """Labels the steps up to the first error by the checker of the task.

  A step is good if its score is above 0 and bad if it is below 0. A score of 0
  judges nothing, such as that of a line of prose: the step has no label. Costs
  no tokens. It is the truth with which other sources are compared.
  """

  def label(forest: Forest) -> base.StepLabels:
    rows = base.root_rows(forest)
    scores = forest.samples.step_scores[rows]
    values = (scores > 0).astype(float)
    mask = base.step_mask(forest, rows) & (scores != 0)
    return base.make(rows, values, base.until_first_zero(values, mask))

  return label
