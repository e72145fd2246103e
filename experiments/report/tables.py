"""Makes the tables of a report, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import rich.table
import rich.text

from experiments.evaluation import summary
from experiments.report.runs import Run, names


def evaluation_table(run: Run) -> rich.table.Table | None:
  """Returns the table of a run: base, trained policy, and their difference.

  A missing evaluation has no column. Returns None if both are missing.
  """
  if not run.evaluations:
    return None
  return summary.table(run.evaluations, title=run.title)


def speed(run: Run) -> str:
  """Returns the median speed of the logged steps as text, "" without any."""
  if "perf/tokens_per_s" not in run.series:
    return ""
  metrics = ("time/step_s", "perf/tokens_per_s")
  seconds, tokens = (np.median(run.series[name][1]) for name in metrics)
  return f"{seconds:.3g} s a step, {tokens:,.0f} tokens a second (medians)"


def comparison_tables(runs: Sequence[Run]) -> list[rich.table.Table]:
  """Returns tables with one column per trained policy that was evaluated.

  There is one table for each task and number of problems that several runs were
  evaluated on.
  """
  by_task: dict[str, dict[str, summary.Evaluation]] = {}
  for run, name in zip(runs, names(runs), strict=True):
    if "trained" in run.evaluations:
      trained = run.evaluations["trained"]
      task = f"{trained.task}, {len(trained.ids)} problems"
      by_task.setdefault(task, {})[name] = trained
  return [
    summary.table(evaluations, title=f"trained  ·  {task}")
    for task, evaluations in by_task.items()
    if len(evaluations) > 1
  ]


def to_json(table: rich.table.Table) -> dict[str, Any]:
  """Converts a table of `summary.table` to JSON values.

  "columns" are the titles of all but the first column, which has labels. "end"
  says whether a row is the last of a section. Each cell has the texts "mean"
  and "interval", and "sign": 1 or -1 for a difference whose interval is above
  or below 0, else 0.
  """
  labels, *columns = ([*column.cells] for column in table.columns)
  return {
    "title": str(table.title),
    "columns": [str(column.header) for column in table.columns[1:]],
    "rows": [
      {
        "label": str(label),
        "cells": [_cell_to_json(column[i]) for column in columns],
        "end": row.end_section,
      }
      for i, (label, row) in enumerate(zip(labels, table.rows, strict=True))
    ],
  }


def _cell_to_json(text: rich.text.Text) -> dict[str, Any]:
  """Converts a cell, "mean [low, high]", whose color gives the sign."""
  mean, _, interval = text.plain.partition(" ")
  styles = " ".join(str(span.style) for span in text.spans)
  sign = ("green" in styles) - ("red" in styles)
  return {"mean": mean, "interval": interval, "sign": sign}
