"""GLoRe's stepwise ORM: whether any continuation of a prefix is right."""

from __future__ import annotations

import numpy as np

from rewards.process.forest import Forest
from rewards.process.label_sources import base


def stepwise_outcome(continuations: int = 8, balance: bool = True):
  """Labels a step 1 if it, or a later step, can still lead to a right answer.

    y_k = 1 if any of the M continuations from the end of a step j >= k is right

  The labels estimate the value of an optimal policy. They do not rise from step
  to step, because a right continuation of a later step is one of an earlier
  step too. The label of the last step is the verdict. Of the problems that are
  labelled together, each step number keeps as many labels 1 as labels 0
  (`balance`).
  Source: Havrilla et al. 2024, GLoRe (stepwise outcome reward model). Not
  checked against the paper: its third rule, which drops continuations that do
  not use the result of their prefix, is left out.

  Args:
    continuations: M.
    balance: whether to balance the labels of each step number.
  """

  def label(forest: Forest) -> base.StepLabels:
    rows = base.root_rows(forest)
    mask = base.step_mask(forest, rows)
    positive = base.step_rates(forest, rows, continuations) > 0
    # The largest label of this and of later steps.
    values = np.maximum.accumulate(positive[:, ::-1], -1)[:, ::-1]
    weights = base.balance_steps(values, mask) if balance else mask
    return base.make(rows, values, weights)

  return label
