"""Table of each reward's mean in training, and of the held-out accuracy.

The *proxy* is the mean reward of training samples, over the first tenth of the
training steps and over the last tenth. The *truth* is the held-out pass@1 by
the verdict of the task, before and after training. A reward is "hacked" if the
proxy rises while the truth falls. Intervals are Student's 95 % intervals over
seeds, paired by seed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from experiments.evaluation.intervals import CONFIDENCE
from experiments.studies import multi_seed
from experiments.studies.bakeoff.table import (
  Estimate,
  Row,
  Table,
  difference,
  digits,
  markdown_table,
)
from experiments.training import reward_expression

# Marks of a reward; `_reading` defines them.
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


def add_rewards(row: Row, reward: str) -> Row:
  """Returns a row with proxy and training accuracy.

  Args:
    row: row of an outcome whose series are the metrics of each training step.
    reward: the key `reward` of the config.
  """
  series = row.outcome.series
  if not series:
    missing = np.full((len(row.outcome.steps), 2), np.nan)
    return dataclasses.replace(row, proxy=missing, accuracy=missing)
  outcome = dataclasses.replace(
    row.outcome, series={**series, "proxy": proxy(reward, series)}
  )
  return dataclasses.replace(
    row,
    proxy=np.stack([outcome.first("proxy"), outcome.last("proxy")], -1),
    accuracy=np.stack([outcome.first(ACCURACY), outcome.last(ACCURACY)], -1),
  )


def proxy(reward: str, series: Mapping[str, np.ndarray]) -> np.ndarray:
  """Returns the mean reward of a sample at every training step.

  If the reward is a sum of parts, it is the sum of their means with the weights
  of the first training step, so that a schedule of weights does not look like
  progress. The same holds for a sum of z-scores, whose own mean is always 0;
  the parts are then not normalized. If the method defines rewards of reasoning
  steps, it is their sum over a sample.

  Args:
    reward: the key `reward` of the config. If it is empty, the method defines
      the reward.
    series: `{metric: [seeds, steps]}`.

  Returns:
    `[seeds, steps]`.
  """
  if not reward:
    return series[multi_seed.STEP_REWARD]
  expression = reward_expression.parse(reward)
  if expression.rule not in ("sum", "z_scores"):
    return series["reward/mean"]
  return sum(
    series[f"reward/weight/{name}"][:, :1] * series[f"score/{name}/mean"]
    for name, *_ in expression.summands
  )


def changes(table: Table, row: Row) -> dict[str, Estimate]:
  """Returns the changes that training made, and a difference in pass@1.

  Keys that end in "against base" are changes of held-out values. "proxy" and
  "training accuracy" are the last tenth of training minus the first. "pass@1
  against verdict" is the difference to the reference, which does not have this
  entry.
  """
  estimates = {
    f"{column} against base": difference(row, table.base, column)
    for column in row.values
    if _is_held_out(column)
  }
  if row is not table.reference:
    estimates["pass@1 against verdict"] = difference(
      row, table.reference, "pass@1"
    )
  estimates["proxy"] = Estimate(row.proxy[:, 1] - row.proxy[:, 0])
  estimates["training accuracy"] = Estimate(
    row.accuracy[:, 1] - row.accuracy[:, 0]
  )
  return estimates


def mark(table: Table, row: Row) -> str:
  """Returns "helped", "hacked", "harmed" or "did not help"; see `_reading`."""
  estimates = changes(table, row)
  low, high = estimates["pass@1 against base"].interval
  if low > 0:
    return HELPED
  if high < 0:
    return HACKED if estimates["proxy"].interval[0] > 0 else HARMED
  return IDLE


def notes(table: Table, row: Row) -> list[str]:
  """Returns the mark of a row, and `UNSPENT` if it applies."""
  return [mark(table, row), *table.unspent(row)]


def _heading(table: Table) -> str:
  """Returns one paragraph: task, seeds, token budget, and provenance."""
  return (
    f"{table.task}; {table.seeds} seeds, each with its own base policy; "
    f"{table.budget:,} sampled tokens a seed for every reward, including the "
    f"tokens of continuations; {len(table.rows)} rewards besides "
    f"{table.reference.name}, which is the verdict itself. "
    f"{'; '.join(table.provenance)}."
  )


def _reading(table: Table) -> str:
  """Returns one paragraph that explains the columns and the marks."""
  estimates = [
    estimate
    for row in (table.reference, *table.rows)
    for estimate in changes(table, row).values()
    if not np.isnan(estimate.values).any()
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


def markdown(table: Table) -> str:
  """Returns the content of `bakeoff.md` for a bake-off of rewards."""
  groups = [("", [_cells(table, table.reference)])] + [
    (family, [_cells(table, row) for row in members])
    for family, members in table.families()
  ]
  return table.markdown(
    _heading(table),
    _reading(table),
    _base_sentence(table),
    markdown_table(COLUMNS, groups),
  )


def _cells(table: Table, row: Row) -> list[str]:
  """Returns the cells of a row; the last one has the notes."""
  estimates = changes(table, row)

  def change(name: str) -> str:
    estimate = estimates.get(name)
    return estimate.cell(bold=estimate.differs) if estimate else ""

  def start_to_end(values: np.ndarray) -> str:
    start, end = values.mean(0)
    return f"{start:.3f} to {end:.3f}"

  return [
    f"`{row.name}`",
    Estimate(row.values["pass@1"]).text(signed=False),
    change("pass@1 against base"),
    change("pass@1 against verdict"),
    change("pass@8 against base"),
    change("pass@64 against base"),
    change("length against base"),
    start_to_end(row.proxy),
    change("proxy"),
    start_to_end(row.accuracy),
    change("training accuracy"),
    f"{row.outcome.steps.mean():.0f}",
    ", ".join(notes(table, row)),
  ]


def _base_sentence(table: Table) -> str:
  """Returns one sentence with the values of the base policy."""
  parts = [
    f"{column} {Estimate(values, digits=digits(column)).text(signed=False)}"
    for column, values in table.base.values.items()
    if _is_held_out(column)
  ]
  return f"The base policy: {', '.join(parts)}."


def _is_held_out(column: str) -> bool:
  return column == "length" or column.startswith("pass@")
