"""The tables and the picture of the results.

A cell is the mean over the seeds with Student's 95 % interval.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib.figure
import numpy as np

from experiments.report import picture
from experiments.studies.process_rewards import rows, unit
from experiments.studies.seed_results import cell, draw_over_steps

# Title of a column -> key in "metrics".
_MODEL_COLUMNS = {
  "first-error F1": "first_error/f1",
  "best of 16, worst step": "accuracy/worst@16",
  "best of 16, mean step": "accuracy/mean@16",
  "majority of 16": "accuracy/maj@16",
}
# Title of a column -> metric whose mean over the last steps is shown.
_RUN_COLUMNS = {
  "steps of a sample": "length/steps_mean",
  "score of a step, model": "prm/score",
  "score of a step, checker": "prm/task_score",
}
_TEXT_COLUMNS = {
  "one sample": "accuracy/pass@1",
  "majority of 4": "accuracy/maj@4",
  "best of five at each step": "accuracy/step_beam",
  "first-error F1": "first_error/f1",
  "area under the curve": "auc",
}
_LAST_STEPS = 10
_DRAWN = ("paid_min_form", "paid_sum_form", "paid_outcome")
_PANELS = {
  "accuracy/pass@1": "share of right samples",
  "length/steps_mean": "steps of a sample",
  "prm/score": "proxy: score of a step by the model",
  "prm/task_score": "gold: score of a step by the checker",
}


def all_tables() -> str:
  """Returns the tables of all kinds of rows in Markdown."""
  kinds = {"labels": [], "loss": [], "noise": [], "run": [], "text": []}
  for name, row in rows.ROWS.items():
    kinds[row.kind].append(name)
  models = (_model_table(kinds[kind]) for kind in ("labels", "loss"))
  others = (
    _noise_table(kinds["noise"]),
    _run_table(kinds["run"]),
    _text_table(kinds["text"]),
  )
  return "\n\n".join((*models, *others))


def _model_table(names: Sequence[str]) -> str:
  """Returns a table with a row for each model that has results."""

  def cells(records: list[dict[str, Any]]) -> list[str]:
    metrics = [record["metrics"] for record in records]
    values = [
      cell([one[key]["mean"] for one in metrics])
      for key in _MODEL_COLUMNS.values()
    ]
    tokens = np.mean([one["label_tokens"] for one in metrics]) / 1e6
    return [*values, f"{tokens:.2f}"]

  titles = [*_MODEL_COLUMNS, "tokens, millions"]
  return _table(titles, names, cells)


def _noise_table(names: Sequence[str]) -> str:
  """Returns a table of the models that are fitted to noisy labels."""

  def cells(records: list[dict[str, Any]]) -> list[str]:
    scores = [one["metrics"]["first_error/f1"]["mean"] for one in records]
    best = [record["best_f1"] for record in records]
    gaps = np.subtract(best, scores)
    return [cell(scores), cell(best), cell(gaps)]

  return _table(["first-error F1", "of exact labels", "gap"], names, cells)


def _run_table(names: Sequence[str]) -> str:
  """Returns a table with a row for each run that has results."""

  def cells(records: list[dict[str, Any]]) -> list[str]:
    accuracies = [
      cell([record["evaluation"][when]["1"] for record in records])
      for when in ("before", "after")
    ]
    return accuracies + [
      cell(
        [np.mean(record["series"][key][-_LAST_STEPS:]) for record in records]
      )
      for key in _RUN_COLUMNS.values()
    ]

  titles = ["pass@1 before", "pass@1 after", *_RUN_COLUMNS]
  return _table(titles, names, cells)


def _text_table(names: Sequence[str]) -> str:
  """Returns a table of the models that read words and maths, or maths alone."""

  def cells(records: list[dict[str, Any]]) -> list[str]:
    return [
      cell([record["metrics"][key]["mean"] for record in records])
      for key in _TEXT_COLUMNS.values()
    ]

  return _table(list(_TEXT_COLUMNS), names, cells)


def _table(
  titles: Sequence[str],
  names: Sequence[str],
  cells: Callable[[list[dict[str, Any]]], list[str]],
) -> str:
  """Returns a table in Markdown of the rows that have results."""
  lines = [
    "| | seeds | " + " | ".join(titles) + " |",
    "|---" * (len(titles) + 2) + "|",
  ]
  for name in names:
    if records := unit.RESULTS.read(name):
      values = " | ".join(cells(records))
      lines.append(f"| {name} | {len(records)} | {values} |")
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
      name: [record["series"][key] for record in unit.RESULTS.read(name)]
      for name in _DRAWN
    }
    draw_over_steps(axes, curves, title)
  axes.legend(frameon=False, labelcolor=picture.INK)
  figure.savefig(path, dpi=150)
