"""SCAN: Monte-Carlo labels that are corrected near the first error."""

from __future__ import annotations

import numpy as np

from rewards.process.forest import Forest
from rewards.process.label_sources import base


def self_denoised(
  window: int = 2,
  confidence: float = 0.75,
  continuations: int = 8,
  balance: bool = True,
):
  """Labels steps from the first hopeless one and the policy's own confidence.

  Let c be the share of right samples of the problem, the confidence of the
  policy, p_k the share of right continuations from the end of step k, and t the
  first step with p_t = 0. Steps before t have label 1, but the last `window` of
  them have min(1, p_k / c): an error may hide in them from a policy that often
  recovers. Step t has label 0, and later steps have none. A right sample has
  labels 1 without continuations. Problems with c below `confidence` have no
  labels. Of the problems that are labelled together, as many right as wrong
  samples are kept (`balance`).
  Source: Ding et al. 2025, SCAN: Self-Denoising Monte Carlo Annotation for
  Robust Process Reward Learning, and its released code. Deviation: the code
  balances the whole data set.

  Args:
    window: number of steps before the first hopeless one with soft labels.
    confidence: smallest share of right samples of a problem that is labelled.
    continuations: number of continuations of each step.
    balance: whether to keep as many right as wrong samples.
  """

  def label(forest: Forest) -> base.StepLabels:
    rows = base.root_rows(forest)
    rates_of_problems = forest.problem_rates()[rows]
    rows = rows[rates_of_problems >= confidence]
    c = forest.problem_rates()[rows][:, None]
    is_right = forest.samples.correct[rows] == 1
    mask = base.step_mask(forest, rows)
    rates = np.ones(mask.shape)
    rates[~is_right] = base.step_rates(forest, rows[~is_right], continuations)
    is_zero = mask & (rates == 0)
    first = np.where(is_zero.any(-1), is_zero.argmax(-1), -1)[:, None]
    step = np.arange(mask.shape[-1])
    values = np.where(step < first - window, 1.0, np.minimum(1.0, rates / c))
    values[is_right] = 1.0
    has_label = mask & ((step <= first) | is_right[:, None])
    labels = base.make(rows, values, has_label)
    if not balance:
      return labels
    return base.balance_samples(
      labels, forest.samples.correct[labels.rows] == 1
    )

  return label
