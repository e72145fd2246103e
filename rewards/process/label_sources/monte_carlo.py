"""Math-Shepherd: the share of continuations of a step that are right."""

from __future__ import annotations

from rewards.process.forest import Forest
from rewards.process.label_sources import base


def monte_carlo(continuations: int = 8, least: int = 1, soft: bool = False):
  """Labels every step by continuations from its end.

    soft: y_k = c_k / M,    hard: y_k = 1 if c_k >= least, else 0

  c_k of the M continuations of step k are right. Hard labels end at the first
  0. With `least` = 1 a step after which the policy succeeds with probability p
  is labelled good with probability 1 - (1 - p)^M, so that one continuation that
  recovers from an error hides it. The label of the last step is the verdict.
  Source: Wang et al. 2023, Math-Shepherd.

  Args:
    continuations: M.
    least: smallest number of right continuations of a good step, 1 to M.
    soft: whether labels are shares.

  Raises:
    UsageError: `least` is not in 1..M.
  """
  base.check_least(least, continuations)

  def label(forest: Forest) -> base.StepLabels:
    rows = base.root_rows(forest)
    mask = base.step_mask(forest, rows)
    rates = base.step_rates(forest, rows, continuations)
    if soft:
      return base.make(rows, rates, mask)
    # Half a continuation less, against rounding of the rates.
    values = (rates * continuations > least - 0.5).astype(float)
    return base.make(rows, values, base.until_first_zero(values, mask))

  return label
