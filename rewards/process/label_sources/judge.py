"""Labels from the verdicts of a judge about the steps of a sample."""

from __future__ import annotations

import numpy as np

from rewards.process.forest import Forest
from rewards.process.label_sources import base


def judge():
  """Labels the steps up to the first one that the forest's judge calls wrong.

  A judge is a model that reads a sample and names its first wrong step
  (`Forest.first_errors`). Samples without a verdict have no labels.
  """

  def label(forest: Forest) -> base.StepLabels:
    rows = base.root_rows(forest)
    first = np.asarray(forest.first_errors(rows))
    rows, first = rows[first > -2], first[first > -2]
    mask = base.step_mask(forest, rows)
    return base.make(rows, *base.from_first_error(first, mask))

  label.reads_judge = True
  return label
