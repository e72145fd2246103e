"""The tables and the picture of the results.

A cell is the mean over the seeds with Student's 95 % interval.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import matplotlib.figure
import numpy as np

from experiments.report import picture
from experiments.studies import plots
from experiments.studies.process_rewards import rows, unit
from experiments.studies.seed_results import cell

Column = Callable[[dict[str, Any]], float]  # reads a value from a result
_LAST_STEPS = 10


def _metric(key: str) -> Column:
  """Returns a column that reads a metric of a fitted model."""
  return lambda record: record["metrics"][key]["mean"]


def _pass_at_1(when: str) -> Column:
  """Returns a column that reads pass@1 "before" or "after" a run."""
  return lambda record: record["evaluation"][when]["1"]


def _end(key: str) -> Column:
  """Returns a column with the mean of a metric over the last steps of a run."""
  return lambda record: np.mean(record["series"][key][-_LAST_STEPS:])


_F1 = _metric("first_error/f1")
_TOKENS = "tokens, millions"  # column of which only the mean is shown
_MODEL_COLUMNS: dict[str, Column] = {
  "first-error F1": _F1,
  "best of 16, worst step": _metric("accuracy/worst@16"),
  "best of 16, mean step": _metric("accuracy/mean@16"),
  "majority of 16": _metric("accuracy/maj@16"),
  _TOKENS: lambda record: record["metrics"]["label_tokens"] / 1e6,
}
# Kind of the rows of a table -> its columns.
_TABLES: dict[str, dict[str, Column]] = {
  "labels": _MODEL_COLUMNS,
  "loss": _MODEL_COLUMNS,
  "noise": {
    "first-error F1": _F1,
    "of exact labels": lambda record: record["best_f1"],
    "gap": lambda record: record["best_f1"] - _F1(record),
  },
  "run": {
    "pass@1 before": _pass_at_1("before"),
    "pass@1 after": _pass_at_1("after"),
    "steps of a sample": _end("length/steps_mean"),
    "score of a step, model": _end("prm/score"),
    "score of a step, checker": _end("prm/task_score"),
  },
  "text": {
    "one sample": _metric("accuracy/pass@1"),
    "majority of 4": _metric("accuracy/maj@4"),
    "best of five at each step": _metric("accuracy/step_beam"),
    "first-error F1": _F1,
    "area under the curve": _metric("auc"),
  },
}
_DRAWN = ("paid_min_form", "paid_sum_form", "paid_outcome")
_PANELS = {
  "accuracy/pass@1": "share of right samples",
  "length/steps_mean": "steps of a sample",
  "prm/score": "proxy: score of a step by the model",
  "prm/task_score": "gold: score of a step by the checker",
}


def all_tables() -> str:
  """Returns the tables of all kinds of rows in Markdown."""
  return "\n\n".join(map(_table, _TABLES))


def _table(kind: str) -> str:
  """Returns a table of the rows of a kind that have results."""
  columns = _TABLES[kind]
  lines = [
    "| | seeds | " + " | ".join(columns) + " |",
    "|---" * (len(columns) + 2) + "|",
  ]
  for name, row in rows.ROWS.items():
    if row.kind == kind and (records := unit.STUDY.read(name)):
      cells = [name, str(len(records))]
      for title, read in columns.items():
        values = [read(record) for record in records]
        mean = f"{np.mean(values):.2f}"
        cells.append(mean if title == _TOKENS else cell(values))
      lines.append(f"| {' | '.join(cells)} |")
  return "\n".join(lines)


def draw_runs(path: pathlib.Path) -> None:
  """Draws the runs by training step.

  Args:
    path: file of the picture.
  """
  figure = matplotlib.figure.Figure(figsize=(9.6, 6.4), layout="constrained")
  for axes, (key, title) in zip(
    figure.subplots(2, 2).flat, _PANELS.items(), strict=True
  ):
    curves = {
      name: [record["series"][key] for record in unit.STUDY.read(name)]
      for name in _DRAWN
    }
    plots.over_steps(axes, curves, title)
  axes.legend(frameon=False, labelcolor=picture.INK)
  figure.savefig(path, dpi=150)
