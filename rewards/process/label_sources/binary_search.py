"""OmegaPRM's search: the first hopeless step of a sample, by halving."""

from __future__ import annotations

import numpy as np

from rewards.process.forest import Forest
from rewards.process.label_sources import base


def binary_search(continuations: int = 8, least: int = 1):
  """Labels steps up to the first hopeless one, which is found by halving.

  A step is hopeless if fewer than `least` continuations from its end are right.
  The search assumes that all steps after a hopeless one are hopeless too, and
  tries about log2(n) + 1 of the n states of a sample, first that of all steps,
  which is the verdict of the sample. A right sample has labels 1 at no cost.
  Source: Luo et al. 2024, Improve Mathematical Reasoning by Automated Process
  Supervision (OmegaPRM), the search without its tree (`divide_and_conquer`).

  Args:
    continuations: number of continuations of a state.
    least: smallest number of right continuations of a state that is not
      hopeless, 1 to `continuations`.

  Raises:
    UsageError: `least` is out of range.
  """
  base.check_least(least, continuations)

  def label(forest: Forest) -> base.StepLabels:
    rows = base.root_rows(forest)
    steps = forest.samples.num_steps[rows]
    # The first hopeless step is in [low, high]; `steps` means that none is.
    low, high = np.zeros_like(steps), steps.copy()
    middle, active = steps - 1, np.arange(len(rows))
    while len(active):
      rates = forest.success_rates(
        rows[active], middle[active] + 1, continuations
      )
      hopeful = rates * continuations > least - 0.5
      low[active[hopeful]] = middle[active[hopeful]] + 1
      high[active[~hopeful]] = middle[active[~hopeful]]
      middle = (low + high) // 2
      active = np.flatnonzero(low < high)
    first = np.where(low < steps, low, -1)
    mask = base.step_mask(forest, rows)
    return base.make(rows, *base.from_first_error(first, mask))

  return label
