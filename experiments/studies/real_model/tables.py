"""Tables and pictures of the results, in Markdown for the README.

The column "base" shows values, and a column of an arm the change from them: the
mean over seeds, with Student's 95 % interval over seeds. All seeds and arms are
evaluated on the same problems with the same random numbers. The interval of an
arm with one seed is the paired bootstrap interval over problems, in rows that
have a value for each problem.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import Any

import matplotlib.figure
import numpy as np

from experiments.evaluation import intervals, summary
from experiments.report import picture
from experiments.studies import plots
from experiments.studies.real_model import unit, variants
from experiments.studies.real_model.arms import base_of
from rl import UsageError

# Row of the table -> name in `summary.Evaluation.estimates`.
_ESTIMATES = {
  "pass@1": "accuracy/pass@1",
  "pass@4": "accuracy/pass@4",
  "pass@16": "accuracy/pass@16",
  "score": "reward/mean",
  "best score of 16": "reward/max@16",
  "length": "length/mean",
  "truncated": "length/truncated_frac",
}
# Row of the table -> name in the record's "series". The value of the base model
# is that of the first training step, which samples from it.
_SERIES = {"entropy, nats": "entropy", "lines": "lines"}
_LAST_STEPS = 5  # last training steps, whose mean is the value of an arm
_KS = (1, 2, 4, 8, 16)


def compare(arms: Sequence[str]) -> str:
  """Returns a Markdown table of the base model and of arms of one task.

  Two arms with the same seeds get a column with their difference.

  Args:
    arms: names of arms that have results.

  Raises:
    UsageError: the arms have different tasks, one of them is a base model, or
      an arm or the base model has no result.
  """
  base_arm = base_of(arms[0])
  for name in arms:
    if name == base_of(name):
      raise UsageError(f"{name} is the base, with which arms are compared")
    if base_of(name) != base_arm:
      raise UsageError(f"{arms[0]} and {name} have different tasks")
  records = {name: unit.STUDY.read(name) for name in (base_arm, *arms)}
  for name, runs in records.items():
    if not runs:
      raise UsageError(f"the arm {name!r} has no result; run it first")
  base = _values(records[base_arm][0])
  for row, name in _SERIES.items():
    first = [
      run["series"][name][0]
      for run in records[arms[0]]
      if run["series"].get(name)
    ]
    if first:
      base[row] = float(np.mean(first))
  values = {name: list(map(_values, records[name])) for name in arms}
  seeds = {name: [run["seed"] for run in records[name]] for name in arms}
  # For an arm with one seed, its changes with intervals over problems.
  over_problems = {
    name: _changes_over_problems(records[base_arm][0], records[name])
    for name in arms
  }
  header = ["", "base"]
  for name in arms:
    count = len(values[name])
    header.append(f"{name}, {count} seed{'' if count == 1 else 's'}")
  is_pair = len(arms) == 2 and seeds[arms[0]] == seeds[arms[1]]
  if is_pair:
    header.append(f"{arms[1]} minus {arms[0]}")
  rows = [header, ["---"] * len(header)]
  for row, base_value in base.items():
    cells = [row, _number(base_value)]
    changes = {
      name: np.array([value[row] - base_value for value in values[name]])
      for name in arms
    }
    cells += [
      _cell(changes[name], over_problems[name].get(row)) for name in arms
    ]
    if is_pair:
      cells.append(_cell(changes[arms[1]] - changes[arms[0]]))
    rows.append(cells)
  return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def variants_table() -> str:
  """Returns a Markdown table of the base model's results on the variants."""
  record = json.loads(variants.FILE.read_text())
  lines = [
    f"{record['run']}; 16 samples of each problem.",
    "",
    "| variant | problems | pass@1 | pass@16 | score | length | truncated |",
    "|---|---|---|---|---|---|---|",
  ]
  for name, row in record["variants"].items():
    keys = ("problems", "pass@1", "pass@16", "score", "length", "truncated")
    cells = [name, *(_number(row[key]) for key in keys)]
    lines.append(f"| {' | '.join(cells)} |")
  return "\n".join(lines)


def draw(arms: Sequence[str], path: pathlib.Path) -> None:
  """Draws pass@k of the base model and of arms, with bands over seeds.

  Args:
    arms: names of arms that have results.
    path: file of the picture.
  """
  figure = matplotlib.figure.Figure(figsize=(6.4, 4.4), layout="constrained")
  axes = figure.subplots()
  base = base_of(arms[0])
  curves = {
    "base model" if name == base else name: np.array(
      [
        [evaluation.estimates[f"accuracy/pass@{k}"].mean for k in _KS]
        for evaluation in map(unit.load_evaluation, unit.STUDY.read(name))
      ]
    )
    for name in (base, *arms)
  }
  plots.against_k(axes, _KS, curves, "pass@k")
  figure.savefig(path, dpi=150)


def draw_lists(arms: Sequence[str], path: pathlib.Path) -> None:
  """Draws the share of right lists and the number of lines by training step.

  Args:
    arms: names of arms that have results.
    path: file of the picture.
  """
  figure = matplotlib.figure.Figure(figsize=(9.6, 4.0), layout="constrained")
  panels = {"pass@1": "share of right lists", "lines": "lines of a list"}
  for axes, (name, title) in zip(
    figure.subplots(1, 2), panels.items(), strict=True
  ):
    curves = {
      arm: [record["series"][name] for record in unit.STUDY.read(arm)]
      for arm in arms
    }
    plots.over_steps(axes, curves, title)
    axes.set_ylim(bottom=0)
  axes.legend(frameon=False, labelcolor=picture.INK)
  figure.savefig(path, dpi=150)


def _values(record: dict[str, Any]) -> dict[str, float]:
  """Returns the numbers of a record by the rows of the table."""
  estimates = unit.load_evaluation(record).estimates
  values = {row: estimates[name].mean for row, name in _ESTIMATES.items()}
  values["log-prob of a page, nats per token"] = record["page_log_prob"]
  for row, name in _SERIES.items():
    last = record["series"].get(name, [])[-_LAST_STEPS:]
    if last:  # base models have no training steps, and texts have no lines
      values[row] = float(np.mean(last))
  return values


def _changes_over_problems(
  base: dict[str, Any], runs: Sequence[dict[str, Any]]
) -> dict[str, summary.Estimate]:
  """Returns the changes of an arm with one seed by row; {} with more seeds."""
  if len(runs) > 1:  # the table has intervals over seeds
    return {}
  changes = summary.compare(
    unit.load_evaluation(base), unit.load_evaluation(runs[0])
  )
  return {row: changes[name] for row, name in _ESTIMATES.items()}


def _cell(
  changes: np.ndarray, over_problems: summary.Estimate | None = None
) -> str:
  """Returns "mean [low, high]" of the changes of an arm, one per seed."""
  mean = _number(changes.mean(), signed=True)
  # A single seed has an interval over problems.
  if over_problems is not None:
    low, high = over_problems.low, over_problems.high
  elif len(changes) == 1:
    return mean
  else:
    low, high = intervals.student_interval(changes)
  return f"{mean} [{_number(low, signed=True)}, {_number(high, signed=True)}]"


def _number(value: float, signed: bool = False) -> str:
  """Returns a number with three decimals below 10, and else with one."""
  # Whole numbers without a sign have no decimals.
  if not signed and float(value).is_integer():
    return str(int(value))
  digits = 3 if abs(value) < 10 else 1
  text = f"{value:+.{digits}f}" if signed else f"{value:.{digits}f}"
  # There is no zero before the point: ".120".
  return text.replace("0.", ".", 1) if abs(value) < 1 else text
