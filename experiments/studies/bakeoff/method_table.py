"""Table of the difference between each method and GRPO, paired by seed."""

from __future__ import annotations

import numpy as np

from experiments.evaluation import intervals
from experiments.studies.bakeoff.table import (
  COST,
  Estimate,
  Row,
  Table,
  difference,
  digits,
  markdown_table,
)

# Note on a row: the interval of the gain in pass@1 over the base policy is not
# above 0. It also marks methods that got worse, and all methods of a table with
# a single seed, which has no interval.
FLAT = "did not learn"


def changes(table: Table, row: Row) -> dict[str, Estimate]:
  """Returns differences to the reference by column, and the ratio of costs."""
  estimates = {
    column: difference(row, table.reference, column)
    for column in row.values
    if column != COST
  }
  cost = Estimate(row.cost(table.reference), null=1.0, digits=2)
  return {**estimates, COST: cost}


def discoveries(table: Table) -> frozenset[tuple[str, str]]:
  """Returns names of methods and columns whose difference is not chance.

  The tests of one column, one for each method, are corrected for their number
  (`intervals.discoveries`).
  """
  pairs = set()
  for column in table.reference.values:
    estimates = {
      row.name: changes(table, row)[column]
      for row in table.rows
      if column in row.values
    }
    # A single value has no test, and a column may have no value.
    estimates = {
      name: estimate
      for name, estimate in estimates.items()
      if len(estimate.values) > 1 and not np.isnan(estimate.values).any()
    }
    p_values = [
      intervals.student_p_value(estimate.values, estimate.null)
      for estimate in estimates.values()
    ]
    is_discovery = intervals.discoveries(np.array(p_values))
    pairs |= {
      (name, column)
      for name, discovered in zip(estimates, is_discovery, strict=True)
      if discovered
    }
  return frozenset(pairs)


def notes(table: Table, row: Row) -> list[str]:
  """Returns the notes on a row: `FLAT`, `UNSPENT`, both or none."""
  low, _ = difference(row, table.base, "pass@1").interval
  return [FLAT] * (not low > 0) + table.unspent(row)


def _heading(table: Table) -> str:
  """Returns one paragraph: task, seeds, budget, and provenance."""
  return (
    f"{table.task}; {table.seeds} seeds, each with its own base policy; "
    f"{table.budget:,} sampled tokens a seed for every method; "
    f"{len(table.rows)} methods besides {table.reference.name}. "
    f"{'; '.join(table.provenance)}."
  )


def _reading(table: Table, num_bold: int) -> str:
  """Returns one paragraph that explains the columns and the notes."""
  name = table.reference.name
  estimates = [
    estimate
    for row in table.rows
    for estimate in changes(table, row).values()
    if len(estimate.values) > 1  # a single value has no interval
  ]
  num_outside = sum(estimate.differs for estimate in estimates)
  return (
    f"Differences to {name} are paired by seed and have "
    "Student's 95 % intervals over seeds of training; held-out problems are "
    "the same for all. Entropy is that of the sampling policy in nats per "
    "token, over the last tenth of training. Length is the number of tokens "
    "of a held-out sample. A step is one rollout and its updates. Cost per "
    "step is the seconds of one device for a step (on a CPU, processor "
    "seconds), without compilation, divided by those of "
    f"{name}; seeds that were trained at the same time share "
    "one measurement and count once. Bold: the difference is not chance, by "
    "Student's t test, corrected for the number of methods (Benjamini and "
    "Hochberg): of the bold differences of a column at most 5 % are expected "
    f"to be chance. {num_bold} of the {len(estimates)} "
    f"differences are bold; without the correction {num_outside} intervals "
    "do not contain zero (for the cost, one). Methods are in alphabetical "
    "order and not ranked: each is compared with "
    f"{name} only. "
    f'"{FLAT}": the interval of pass@1 minus that of the base policy is not '
    "above zero. A method without an importance ratio makes one update per "
    "rollout, others as many as their config sets."
  )


def markdown(table: Table) -> str:
  """Returns the content of `bakeoff.md` for a bake-off of methods."""
  pairs = discoveries(table)
  titles = ["method", *table.reference.values, ""]

  def absolute(row: Row) -> list[str]:
    cells = [
      Estimate(values, digits=digits(column)).text(signed=False)
      for column, values in {**row.values, COST: row.cost()}.items()
    ]
    return [row.name, *cells, ""]

  def relative(row: Row) -> list[str]:
    cells = [
      estimate.cell(bold=(row.name, column) in pairs)
      for column, estimate in changes(table, row).items()
    ]
    return [f"`{row.name}`", *cells, ", ".join(notes(table, row))]

  return table.markdown(
    _heading(table),
    markdown_table(
      ["seconds per step" if title == COST else title for title in titles],
      [("", map(absolute, (table.base, table.reference)))],
    ),
    _reading(table, len(pairs)),
    markdown_table(
      titles,
      ((family, map(relative, rows)) for family, rows in table.families()),
    ),
  )
