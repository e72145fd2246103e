"""Table of the difference between each method and GRPO.

A difference is paired by seed: a method and GRPO are trained with the same
seed, and share the base policy, the training problems and the held-out
problems. Intervals are Student's 95 % intervals for the mean over seeds. The
rows of a family are in alphabetical order. They are not sorted by a result,
because the table compares each method with GRPO only and ranks none.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.evaluation import intervals
from experiments.studies import multi_seed
from experiments.studies.arms import Outcome, TrainingCost
from experiments.studies.bakeoff.report import Cell, Grid, Line, Report

KS = (1, 8, 64)  # values of k of the columns pass@k
COST = "cost per step"  # column: seconds of one device per training step
# Note on a row: the interval of the gain in pass@1 over the base policy is not
# above 0. It also marks methods that got worse, and all methods of a table with
# a single seed, which has no interval.
FLAT = "did not learn"
# Note on a row: a seed reached its limit of steps before it had sampled its
# budget of tokens.
UNSPENT = "did not spend its tokens"


@dataclasses.dataclass(frozen=True)
class Estimate:
  """A mean with its interval; a single value has no interval.

  Attributes:
    values: `[N]`, one value per seed. Seeds that share a time measurement have
      one time together (`Row.by_clock`).
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
    if len(self.values) < 2:
      return float("nan"), float("nan")
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

  def record(self) -> dict[str, Any]:
    """Returns the numbers as JSON values."""
    low, high = self.interval
    return {
      "mean": self.mean,
      "low": low,
      "high": high,
      "differs": self.differs,
      "values": [float(x) for x in self.values],
    }


@dataclasses.dataclass(frozen=True)
class Row:
  """Measured values of a method, or of the base policy.

  Attributes:
    name: name of the method.
    family: folder of the method in `rl/methods`; "" for the base policy.
    values: `{column: [seeds]}`, not relative to the reference. The column
      `COST` has the seconds per step of each seed, of which seeds that were
      trained at the same time share one measurement.
    steps: `[seeds]` number of training steps.
    training_cost: sampled tokens and time of the training.
    provenance: dates, commits and devices of the training.
  """

  name: str
  family: str
  values: Mapping[str, np.ndarray]
  steps: np.ndarray
  training_cost: TrainingCost
  provenance: frozenset[str]

  def by_clock(
    self, values: np.ndarray, other: Row | None = None
  ) -> np.ndarray:
    """Averages times over the seeds that share one time measurement.

    Args:
      values: `[seeds]` times, or ratios of this row's times to those of
        `other`.
      other: second row of the ratios; None if `values` are times.

    Returns:
      `[N]`, one mean for each of N groups of seeds. Two seeds are in the same
      group if they share a measurement in either row.
    """
    groups_by_row = [
      row.training_cost.timing_groups
      for row in (self, other)
      if row is not None
    ]
    # merged[i]: index of the first seed in the group of seed i. Groups of the
    # two rows that have a seed in common are merged, until nothing changes.
    merged, previous = np.arange(len(values)), None
    while not np.array_equal(merged, previous):
      previous = merged.copy()
      for groups in groups_by_row:
        for n in np.unique(groups):
          merged[groups == n] = merged[groups == n].min()
    return np.array([values[merged == n].mean() for n in np.unique(merged)])


def make_row(
  name: str,
  family: str,
  outcome: Outcome,
  training_cost: TrainingCost,
  provenance: Iterable[str],
) -> Row:
  """Makes the row of an outcome.

  The base policy is not trained, so its entropy and its cost are NaN. A column
  pass@k with k above the number of samples is left out.
  """
  ks = [k for k in KS if k <= outcome.correct.shape[-1]]
  curve = outcome.pass_curve(ks)
  missing = np.full(len(curve), np.nan)
  values = {f"pass@{k}": curve[:, i] for i, k in enumerate(ks)}
  values["entropy"] = (
    outcome.last(multi_seed.SURPRISE) if outcome.series else missing
  )
  values["length"] = outcome.lengths.mean((1, 2))
  values[COST] = training_cost.step_seconds
  return Row(
    name, family, values, outcome.steps, training_cost, frozenset(provenance)
  )


def compare(member: Row, reference: Row) -> dict[str, Estimate]:
  """Returns differences to the reference by column, and the ratio of costs."""
  differences = {
    column: Estimate(values - reference.values[column], digits=digits(column))
    for column, values in member.values.items()
    if column != COST
  }
  ratio = member.by_clock(
    member.values[COST] / reference.values[COST], reference
  )
  return {**differences, COST: Estimate(ratio, null=1.0, digits=2)}


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
    reference: row of GRPO.
    rows: rows of the other methods, in any order.
    not_run: `{method: reason}` of methods that cannot run or that failed.
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
    return sorted(frozenset().union(*(member.provenance for member in rows)))

  @functools.cached_property
  def discoveries(self) -> frozenset[tuple[str, str]]:
    """Names of methods and columns whose difference is not chance.

    The tests of one column, one for each method, are corrected for their number
    (`intervals.discoveries`).
    """
    discoveries = set()
    for column in self.columns:
      estimates = {
        row.name: self.compared(row)[column]
        for row in self.rows
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
      discoveries |= {
        (name, column)
        for name, discovered in zip(estimates, is_discovery, strict=True)
        if discovered
      }
    return frozenset(discoveries)

  @property
  def columns(self) -> list[str]:
    return list(self.reference.values)

  @property
  def seeds(self) -> int:
    return len(self.reference.steps)

  def families(self) -> Iterable[tuple[str, list[Row]]]:
    """Yields families with their rows, both in alphabetical order."""
    rows = sorted(self.rows, key=lambda row: (row.family, row.name))
    for family, members in itertools.groupby(rows, lambda row: row.family):
      yield family, list(members)

  def compared(self, member: Row) -> dict[str, Estimate]:
    """Returns the differences between a method and the reference, by column."""
    return compare(member, self.reference)

  def notes(self, member: Row) -> list[str]:
    """Returns the notes on a row: `FLAT`, `UNSPENT`, both or none."""
    gain = Estimate(member.values["pass@1"] - self.base.values["pass@1"])
    notes = [] if gain.interval[0] > 0 else [FLAT]
    return notes + [UNSPENT] * bool(
      (member.training_cost.tokens < self.budget).any()
    )

  @property
  def heading(self) -> str:
    """One paragraph: task, seeds, budget, and provenance."""
    return (
      f"{self.task}; {self.seeds} seeds, each with its own base policy; "
      f"{self.budget:,} sampled tokens a seed for every method; "
      f"{len(self.rows)} methods besides {self.reference.name}. "
      f"{'; '.join(self.provenance)}."
    )

  @property
  def reading(self) -> str:
    """One paragraph that explains the columns and the notes."""
    estimates = [
      estimate
      for row in self.rows
      for estimate in self.compared(row).values()
      if len(estimate.values) > 1  # a single value has no interval
    ]
    num_outside = sum(estimate.differs for estimate in estimates)
    return (
      f"Differences to {self.reference.name} are paired by seed and have "
      "Student's 95 % intervals over seeds of training; held-out problems are "
      "the same for all. Entropy is that of the sampling policy in nats per "
      "token, over the last tenth of training. Length is the number of tokens "
      "of a held-out sample. A step is one rollout and its updates. Cost per "
      "step is the seconds of one device for a step (on a CPU, processor "
      "seconds), without compilation, divided by those of "
      f"{self.reference.name}; seeds that were trained at the same time share "
      "one measurement and count once. Bold: the difference is not chance, by "
      "Student's t test, corrected for the number of methods (Benjamini and "
      "Hochberg): of the bold differences of a column at most 5 % are expected "
      f"to be chance. {len(self.discoveries)} of the {len(estimates)} "
      f"differences are bold; without the correction {num_outside} intervals "
      "do not contain zero (for the cost, one). Methods are in alphabetical "
      "order and not ranked: each is compared with "
      f"{self.reference.name} only. "
      f'"{FLAT}": the interval of pass@1 minus that of the base policy is not '
      "above zero. A method without an importance ratio makes one update per "
      "rollout, others as many as their config sets."
    )

  def report(self) -> Report:
    """Returns the content of the files of a bake-off of methods."""

    def grid(
      cost_title: str, groups: Iterable[tuple[str, Sequence[Line]]]
    ) -> Grid:
      # The last column of a table holds the cost.
      titles = ["method", *self.columns[:-1], cost_title, ""]
      return Grid(titles, list(groups))

    def absolute(member: Row) -> Line:
      values = {**member.values, COST: member.by_clock(member.values[COST])}
      texts = [
        Estimate(column_values, digits=digits(column)).text(signed=False)
        for column, column_values in values.items()
      ]
      return Line(member.name, list(map(Cell, texts)), "", is_code=False)

    def relative(member: Row) -> Line:
      cells = [
        Cell(estimate.text(), (member.name, column) in self.discoveries)
        for column, estimate in self.compared(member).items()
      ]
      return Line(member.name, cells, ", ".join(self.notes(member)))

    families = (
      (family, list(map(relative, members)))
      for family, members in self.families()
    )
    blocks = (
      self.heading,
      grid(
        "seconds per step",
        [("", [absolute(self.base), absolute(self.reference)])],
      ),
      self.reading,
      grid(COST, families),
    )
    return Report("Bake-off", blocks, self.not_run, record(self))


def record(table: Table) -> dict[str, Any]:
  """Returns the content of `bakeoff.json`."""

  def absolute(member: Row) -> dict[str, Any]:
    return {
      "values": {
        column: [float(x) for x in values]
        for column, values in member.values.items()
      },
      "steps": [int(x) for x in member.steps],
      "tokens": [int(x) for x in member.training_cost.tokens],
    }

  return {
    "task": table.task,
    "seeds": table.seeds,
    "budget": table.budget,
    "made": table.provenance,
    "base": absolute(table.base),
    table.reference.name: absolute(table.reference),
    "methods": {
      member.name: {
        "family": member.family,
        "notes": table.notes(member),
        **absolute(member),
        # Differences to the reference.
        "against": {
          column: {
            **estimate.record(),
            "discovered": (member.name, column) in table.discoveries,
          }
          for column, estimate in table.compared(member).items()
        },
      }
      for _, members in table.families()
      for member in members
    },
    "not_run": dict(sorted(table.not_run.items())),
  }
