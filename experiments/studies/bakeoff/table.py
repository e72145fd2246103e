"""Rows of a bake-off, and estimates over seeds with intervals.

Differences are paired by seed: all entries are trained with the same seeds, and
share the base policies, the training problems and the held-out problems.
Intervals are Student's 95 % intervals for the mean over seeds.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.evaluation import intervals
from experiments.studies import multi_seed
from experiments.studies.arms import Outcome

KS = (1, 8, 64)  # values of k of the columns pass@k
BUDGETS = (1, 2, 4, 8, 16, 32, 64)  # values of k of the curves in bakeoff.json
COST = "cost per step"  # column: seconds of one device per training step
# Note on a row: a seed reached its limit of steps before it had sampled its
# budget of tokens.
UNSPENT = "did not spend its tokens"


@dataclasses.dataclass(frozen=True)
class Estimate:
  """A mean with its interval; a single value has no interval.

  Attributes:
    values: `[N]`, one value per seed. Seeds that share a time measurement have
      one time together (`Row.cost`).
    null: value of no effect: 0 for a difference, 1 for a ratio.
    digits: number of decimals in the text.
  """

  values: np.ndarray
  null: float = 0.0
  digits: int = 3

  @property
  def mean(self) -> float:
    return float(np.mean(self.values))

  @property
  def interval(self) -> tuple[float, float]:
    """Lower and upper end; NaN for a single value."""
    low, high = intervals.student_interval(self.values)
    return float(low), float(high)

  @property
  def differs(self) -> bool:
    """True if the interval does not contain `null`; False without interval."""
    low, high = self.interval
    return bool(low > self.null or high < self.null)

  def text(self, signed: bool = True) -> str:
    """Returns text such as "+0.012 [+0.003, +0.021]".

    Args:
      signed: whether positive numbers get a plus sign; ratios never get one.

    Returns:
      The text; "" if a value is NaN, and only the mean if N = 1.
    """
    if np.isnan(self.values).any():
      return ""
    sign = "+" if signed and not self.null else ""
    mean, low, high = (
      f"{x:{sign}.{self.digits}f}" for x in (self.mean, *self.interval)
    )
    return f"{mean} [{low}, {high}]" if len(self.values) > 1 else mean

  def cell(self, bold: bool) -> str:
    """Returns the text of a difference for a table in Markdown."""
    return f"**{self.text()}**" if bold else self.text()

  def record(self) -> dict[str, Any]:
    """Returns the numbers as JSON values."""
    low, high = self.interval
    return {
      "mean": self.mean,
      "low": low,
      "high": high,
      "differs": self.differs,
      "values": self.values.tolist(),
    }


@dataclasses.dataclass(frozen=True)
class Row:
  """Measured values of an entry, or of the base policy.

  Attributes:
    name: name of the entry.
    family: heading under which the entry is listed; "" for the base policy.
    outcome: outcome of the training.
    values: `{column: [seeds]}`, not relative to the reference. The column
      `COST` has the seconds per step of each seed, of which seeds that were
      trained at the same time share one measurement.
    proxy: `[seeds, 2]` mean reward over the first and over the last tenth of
      the training steps; NaN for the base policy, None in a table of methods.
    accuracy: `[seeds, 2]` accuracy of the training samples over the same
      steps, or None.
  """

  name: str
  family: str
  outcome: Outcome
  values: Mapping[str, np.ndarray]
  proxy: np.ndarray | None = None
  accuracy: np.ndarray | None = None

  def cost(self, reference: Row | None = None) -> np.ndarray:
    """Averages seconds per step over the seeds that share one measurement.

    Args:
      reference: row by whose seconds those of this row are divided, or None.

    Returns:
      `[N]`, one mean for each of N groups of seeds. Two seeds are in the same
      group if they share a measurement in either row.
    """
    values, clocks = self.values[COST], [self.outcome.timing_groups]
    if reference is not None:
      values = values / reference.values[COST]
      clocks.append(reference.outcome.timing_groups)
    # merged[i]: index of the first seed in the group of seed i. Groups of the
    # two rows that have a seed in common are merged, until nothing changes.
    merged, previous = np.arange(len(values)), None
    while not np.array_equal(merged, previous):
      previous = merged.copy()
      for groups in clocks:
        for n in np.unique(groups):
          merged[groups == n] = merged[groups == n].min()
    return np.array([values[merged == n].mean() for n in np.unique(merged)])

  def best_of(self) -> dict[str, Any]:
    """Returns the value of the best of k held-out samples over k, as JSON.

    The quantity is max@k if scores are graded, and otherwise pass@k.
    """
    ks = [k for k in BUDGETS if k <= self.outcome.correct.shape[-1]]
    graded = is_graded(self.outcome)
    curves = self.outcome.max_curve if graded else self.outcome.pass_curve
    quantity = "max@k" if graded else "pass@k"
    return {"quantity": quantity, "k": ks, "values": curves(ks).tolist()}

  def record(self) -> dict[str, Any]:
    """Returns the measured values as JSON values."""
    arrays = {
      "proxy": self.proxy,
      "accuracy": self.accuracy,
      "steps": self.outcome.steps,
      "tokens": self.outcome.tokens,
    }
    return {
      "values": {name: values.tolist() for name, values in self.values.items()},
      "best_of": self.best_of(),
      **{name: x.tolist() for name, x in arrays.items() if x is not None},
    }


def make_row(name: str, family: str, outcome: Outcome) -> Row:
  """Makes the row of an outcome.

  The base policy is not trained, so its entropy and its cost are NaN. A column
  pass@k with k above the number of samples is left out. If scores are graded,
  there are columns max@k, too.
  """
  ks = [k for k in KS if k <= outcome.correct.shape[-1]]
  curve = outcome.pass_curve(ks)
  missing = np.full(len(curve), np.nan)
  values = {f"pass@{k}": curve[:, i] for i, k in enumerate(ks)}
  if is_graded(outcome):
    best = outcome.max_curve(ks)
    values |= {f"max@{k}": best[:, i] for i, k in enumerate(ks)}
  values["entropy"] = (
    outcome.last(multi_seed.SURPRISE) if outcome.series else missing
  )
  values["length"] = outcome.lengths.mean((1, 2))
  values[COST] = outcome.step_seconds
  return Row(name, family, outcome, values)


def is_graded(outcome: Outcome) -> bool:
  """Returns whether any held-out score is neither 0 nor 1."""
  scores = np.nan_to_num(outcome.scores)
  return bool(((scores != 0) & (scores != 1)).any())


def difference(row: Row, other: Row, column: str) -> Estimate:
  """Returns the difference between two rows in a column, paired by seed."""
  return Estimate(
    row.values[column] - other.values[column], digits=digits(column)
  )


def digits(column: str) -> int:
  """Returns the number of decimals of a column."""
  return 2 if column == "length" else 3


@dataclasses.dataclass(frozen=True)
class Table:
  """All rows of a bake-off.

  Attributes:
    task: task with its settings.
    budget: number of completion tokens that each seed samples.
    base: row of the base policy.
    reference: row with which the others are compared.
    rows: the other rows, in any order.
    not_run: `{name: reason}` of entries that cannot run or that failed.
  """

  task: str
  budget: int
  base: Row
  reference: Row
  rows: Sequence[Row]
  not_run: Mapping[str, str]

  @property
  def provenance(self) -> list[str]:
    """Dates, commits and devices of all training runs."""
    rows = (self.base, self.reference, *self.rows)
    return sorted(frozenset().union(*(row.outcome.provenance for row in rows)))

  @property
  def seeds(self) -> int:
    return len(self.reference.outcome.steps)

  def families(self) -> Iterable[tuple[str, list[Row]]]:
    """Yields families with their rows, both in alphabetical order.

    The rows are not sorted by a result, because the table compares each entry
    with the reference only and ranks none.
    """
    rows = sorted(self.rows, key=lambda row: (row.family, row.name))
    for family, members in itertools.groupby(rows, lambda row: row.family):
      yield family, list(members)

  def unspent(self, row: Row) -> list[str]:
    """Returns the note `UNSPENT` if it applies to a row, and else no note."""
    return [UNSPENT] * bool((row.outcome.tokens < self.budget).any())

  def markdown(self, *blocks: str) -> str:
    """Returns the content of `bakeoff.md`.

    Args:
      *blocks: paragraphs and tables, in order.
    """
    if self.not_run:
      reasons = sorted(self.not_run.items())
      items = (f"- `{name}`: {reason}" for name, reason in reasons)
      blocks += ("Not run:", "\n".join(items))
    return "\n\n".join(blocks) + "\n"

  def record(
    self,
    changes: Callable[[Table, Row], Mapping[str, Estimate]],
    notes: Callable[[Table, Row], Sequence[str]],
  ) -> dict[str, Any]:
    """Returns the content of `bakeoff.json`.

    Args:
      changes: function that returns the differences of a row by name.
      notes: function that returns the notes on a row.
    """

    def compared(row: Row) -> dict[str, Any]:
      estimates = changes(self, row)
      return {
        "family": row.family,
        "notes": list(notes(self, row)),
        **row.record(),
        "changes": {name: x.record() for name, x in estimates.items()},
      }

    rows = [row for _, members in self.families() for row in members]
    return {
      "task": self.task,
      "seeds": self.seeds,
      "budget": self.budget,
      "made": self.provenance,
      "base": self.base.record(),
      "reference": self.reference.name,
      "rows": {row.name: compared(row) for row in (self.reference, *rows)},
      "not_run": dict(sorted(self.not_run.items())),
    }


def markdown_table(
  titles: Sequence[str],
  groups: Iterable[tuple[str, Iterable[Sequence[str]]]],
) -> str:
  """Returns a table in Markdown.

  Args:
    titles: titles of all columns.
    groups: pairs of a heading, "" for none, and the lines of cells below it.
  """
  lines = [titles, ["---"] * len(titles)]
  for heading, members in groups:
    if heading:
      lines.append([f"**{heading}**", *[""] * (len(titles) - 1)])
    lines += members
  return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
