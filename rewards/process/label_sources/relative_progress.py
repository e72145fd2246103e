"""GenPRM: a step is good if it keeps enough of the success rate."""

from __future__ import annotations

import numpy as np

from rewards.process.forest import Forest
from rewards.process.label_sources import base


def relative_progress(threshold: float = 0.8, continuations: int = 8):
  """Labels a step by the ratio of the success rates after and before it.

    y_k = 1 if p_k / p_{k-1} >= threshold, else 0

  p_k is the share of right continuations from the end of step k, and p_0 the
  share of right samples of the problem. From the first step with p_k = 0 on,
  all labels are 0. Samples of a problem with p_0 = 0 have no labels. A small
  threshold gives the hard labels of `monte_carlo` before the first zero.
  Source: Zhao et al. 2025, GenPRM (relative progress estimation).

  Args:
    threshold: smallest ratio of a good step.
    continuations: number of continuations of each step.
  """

  def label(forest: Forest) -> base.StepLabels:
    rows = base.root_rows(forest)
    rows = rows[forest.problem_rates()[rows] > 0]
    rates = base.step_rates(forest, rows, continuations)
    before = np.column_stack([forest.problem_rates()[rows], rates[:, :-1]])
    # 1e-9: a ratio that equals the threshold passes whatever its rounding.
    values = rates >= threshold * before - 1e-9
    values &= np.cumprod(rates > 0, -1).astype(bool)
    return base.make(rows, values, base.step_mask(forest, rows))

  return label
