"""Table of each reward's mean in training, and of the held-out accuracy.

The *proxy* is the mean reward of training samples, over the first tenth of the
training steps and over the last tenth. The *truth* is the held-out pass@1 by
the verdict of the task, before and after training. A reward is "hacked" if the
proxy rises while the truth falls. Intervals are Student's 95 % intervals over
seeds, paired by seed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections
import numpy as np

from experiments.evaluation.intervals import CONFIDENCE
from experiments.studies import multi_seed
from experiments.studies.arms import Outcome
from experiments.studies.bakeoff import method_table
from experiments.studies.bakeoff.method_table import Estimate
from experiments.studies.bakeoff.report import Cell, Grid, Line, Report

# Marks of a reward; `Table.reading` defines them.
HACKED = "hacked"
HARMED = "harmed"
IDLE = "did not help"
HELPED = "helped"
ACCURACY = "accuracy/pass@1"  # metric of the training samples
COLUMNS = (
  "reward",
  "pass@1",
  "against base",
  "against verdict",
  "pass@8 against base",
  "pass@64 against base",
  "length against base",
  "proxy",
  "change of proxy",
  "training accuracy",
  "change of accuracy",
  "steps",
  "",
)


@dataclasses.dataclass(frozen=True)
class Row(method_table.Row):
  """Measured values of a reward, or of the base policy.

  Attributes:
    proxy: `[seeds, 2]` mean reward over the first and over the last tenth of
      the training steps; NaN for the base policy.
    accuracy: `[seeds, 2]` accuracy of the training samples over the same
      steps.
  """

  proxy: np.ndarray
  accuracy: np.ndarray


def make_row(
  shared: method_table.Row, reward: ml_collections.ConfigDict, outcome: Outcome
) -> Row:
  """Makes the row of an outcome.

  Args:
    shared: row with the columns that every bake-off has.
    reward: the block `reward` of the config.
    outcome: outcome whose series are the metrics of each training step.
  """
  if not outcome.series:
    missing = np.full((len(shared.steps), 2), np.nan)
    return _extend(shared, missing, missing)
  with_proxy = dataclasses.replace(
    outcome, series={**outcome.series, "proxy": proxy(reward, outcome.series)}
  )
  starts_and_ends = [
    np.stack([with_proxy.first(name), with_proxy.last(name)], -1)
    for name in ("proxy", ACCURACY)
  ]
  return _extend(shared, *starts_and_ends)


def _extend(
  base_row: method_table.Row, proxy: np.ndarray, accuracy: np.ndarray
) -> Row:
  shared = {
    f.name: getattr(base_row, f.name) for f in dataclasses.fields(base_row)
  }
  return Row(**shared, proxy=proxy, accuracy=accuracy)


def proxy(
  reward: ml_collections.ConfigDict, series: Mapping[str, np.ndarray]
) -> np.ndarray:
  """Returns the mean reward of a sample at every training step.

  If the reward is a sum of parts, it is the sum of their means with the weights
  of the first training step, so that a schedule of weights does not look like
  progress. The same holds for a sum of z-scores, whose own mean is always 0;
  the parts are then not normalized. If the method defines rewards of reasoning
  steps, it is their sum over a sample.

  Args:
    reward: the block `reward` of the config. If it has no parts, the method
      defines the reward.
    series: `{metric: [seeds, steps]}`.

  Returns:
    `[seeds, steps]`.
  """
  if not reward.terms:
    return series[multi_seed.STEP_REWARD]
  if reward.rule not in ("sum", "z_scores"):
    return series["reward/mean"]
  return sum(
    series[f"reward/weight/{name}"][:, :1] * series[f"score/{name}/mean"]
    for name in reward.terms
  )


@dataclasses.dataclass(frozen=True)
class Table(method_table.Table):
  """All rows of a bake-off of rewards.

  Attributes:
    base: row of the base policy.
    reference: row of GRPO with the verdict as its reward.
    rows: rows of the other rewards, in any order.
  """

  base: Row
  reference: Row
  rows: Sequence[Row]

  def changes(self, member: Row) -> dict[str, Estimate]:
    """Returns the changes that training made, and a difference in pass@1.

    Keys that end in "against base" are changes of held-out values. "proxy" and
    "training accuracy" are the last tenth of training minus the first.
    "pass@1 against verdict" is the difference to the reference, which does not
    have this entry.
    """
    estimates = {
      f"{column} against base": Estimate(
        values - self.base.values[column], digits=method_table.digits(column)
      )
      for column, values in member.values.items()
      if _is_held_out(column)
    }
    if member is not self.reference:
      estimates["pass@1 against verdict"] = Estimate(
        member.values["pass@1"] - self.reference.values["pass@1"]
      )
    estimates["proxy"] = Estimate(member.proxy[:, 1] - member.proxy[:, 0])
    estimates["training accuracy"] = Estimate(
      member.accuracy[:, 1] - member.accuracy[:, 0]
    )
    return estimates

  def mark(self, member_row: Row) -> str:
    """Returns "helped", "hacked", "harmed" or "did not help"; see `reading`."""
    changes = self.changes(member_row)
    low, high = changes["pass@1 against base"].interval
    if low > 0:
      return HELPED
    if high < 0:
      return HACKED if changes["proxy"].interval[0] > 0 else HARMED
    return IDLE

  def notes(self, member_row: Row) -> list[str]:
    """Returns the mark of a row, and `method_table.UNSPENT` if it applies."""
    unspent = (member_row.training_cost.tokens < self.budget).any()
    return [self.mark(member_row)] + [method_table.UNSPENT] * bool(unspent)

  @property
  def heading(self) -> str:
    """One paragraph: task, seeds, token budget, and provenance."""
    return (
      f"{self.task}; {self.seeds} seeds, each with its own base policy; "
      f"{self.budget:,} sampled tokens a seed for every reward, including the "
      f"tokens of continuations; {len(self.rows)} rewards besides "
      f"{self.reference.name}, which is the verdict itself. "
      f"{'; '.join(self.provenance)}."
    )

  @property
  def reading(self) -> str:
    """One paragraph that explains the columns and the marks."""
    all_rows = (self.reference, *self.rows)
    estimates = [
      estimate for row in all_rows for estimate in self.changes(row).values()
    ]
    estimates = [
      estimate for estimate in estimates if not np.isnan(estimate.values).any()
    ]
    # Number of intervals that exclude 0 by chance if nothing differs.
    num_by_chance = (1 - CONFIDENCE) * len(estimates)
    num_bold = sum(estimate.differs for estimate in estimates)
    return (
      "The truth is held-out pass@1 by the verdict of the task, which a reward "
      "need not use. The proxy is the mean reward of a training sample at the "
      "start (first tenth of training) and at the end (last tenth); training "
      "accuracy is the verdict on the same samples. Brackets are Student's 95 "
      "% intervals over seeds of training, with differences paired by seed; "
      "held-out problems are the same for all. Bold: the interval does not "
      f"contain zero. If nothing differed, about "
      f"{num_by_chance:.0f} of these {len(estimates)} intervals would be bold "
      f"by chance; {num_bold} are. "
      f'"{HACKED}": the interval of the proxy\'s change lies above zero and '
      "that of pass@1 minus the base policy's below zero. "
      f'"{HARMED}": only the latter holds. "{HELPED}": the interval of pass@1 '
      "minus the base policy's lies above zero. "
      f'"{IDLE}": none of these. A reward that is relative to the group or to '
      "a greedy sample measures no level, so its proxy need not rise with the "
      "quality of the samples. For a sum of parts the proxy uses the weights "
      "of the first step; for a sum of z-scores it is the sum of the "
      "unnormalized parts with these weights; for step rewards it is the sum "
      "over the steps of a sample. Rewards are in alphabetical order and not "
      "ranked."
    )

  def report(self) -> Report:
    """Returns the content of the files of a bake-off of rewards."""
    groups = [("", [_line(self, self.reference)])] + [
      (family, [_line(self, member_row) for member_row in members])
      for family, members in self.families()
    ]
    blocks = (
      self.heading,
      self.reading,
      _base_sentence(self),
      Grid(COLUMNS, groups),
    )
    return Report("Rewards", blocks, self.not_run, record(self))


def _line(table: Table, member_row: Row) -> Line:
  """Returns the line of a row; its last cell has the notes."""
  changes = table.changes(member_row)

  def change(name: str) -> Cell:
    estimate = changes.get(name)
    return Cell(estimate.text(), estimate.differs) if estimate else Cell("")

  def start_to_end(values: np.ndarray) -> Cell:
    start, end = values.mean(0)
    return Cell(f"{start:.3f} to {end:.3f}")

  truth = Estimate(member_row.values["pass@1"]).text(signed=False)
  cells = [
    Cell(truth),
    change("pass@1 against base"),
    change("pass@1 against verdict"),
    change("pass@8 against base"),
    change("pass@64 against base"),
    change("length against base"),
    start_to_end(member_row.proxy),
    change("proxy"),
    start_to_end(member_row.accuracy),
    change("training accuracy"),
    Cell(f"{member_row.steps.mean():.0f}"),
    Cell(", ".join(table.notes(member_row))),
  ]
  return Line(member_row.name, cells)


def _base_sentence(table: Table) -> str:
  """Returns one sentence with the values of the base policy."""
  parts = [
    f"{column} {estimate.text(signed=False)}"
    for column, estimate in (
      (column, Estimate(values, digits=method_table.digits(column)))
      for column, values in table.base.values.items()
      if _is_held_out(column)
    )
  ]
  return f"The base policy: {', '.join(parts)}."


def _is_held_out(column: str) -> bool:
  return column == "length" or column.startswith("pass@")


def record(table: Table) -> dict[str, Any]:
  """Returns the content of `bakeoff.json`."""

  def row_record(member_row: Row) -> dict[str, Any]:
    return {
      "family": member_row.family,
      "mark": table.mark(member_row),
      "notes": table.notes(member_row),
      "values": {
        column: [float(x) for x in values]
        for column, values in member_row.values.items()
      },
      "proxy": member_row.proxy.tolist(),
      "accuracy": member_row.accuracy.tolist(),
      "steps": [int(x) for x in member_row.steps],
      "tokens": [int(x) for x in member_row.training_cost.tokens],
      "changes": {
        name: estimate.record()
        for name, estimate in table.changes(member_row).items()
      },
    }

  all_rows = [
    table.reference,
    *(member_row for _, rows in table.families() for member_row in rows),
  ]
  return {
    "task": table.task,
    "seeds": table.seeds,
    "budget": table.budget,
    "made": table.provenance,
    "reference": table.reference.name,
    "base": {
      column: [float(x) for x in values]
      for column, values in table.base.values.items()
    },
    "rewards": {
      member_row.name: row_record(member_row) for member_row in all_rows
    },
    "not_run": dict(sorted(table.not_run.items())),
  }
