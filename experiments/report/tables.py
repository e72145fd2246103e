"""The tables of a report: for a terminal, and the same ones for a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rich.table
import rich.text

from experiments.evaluation import statistics
from experiments.report.runs import Run, names


def own(run: Run) -> rich.table.Table | None:
  """Base, trained and their difference; None where nothing was evaluated."""
  if not run.evaluations:
    return None
  return statistics.table(run.evaluations, title=run.title)


def side_by_side(runs: Sequence[Run]) -> list[rich.table.Table]:
  """The trained policies of several runs, one table per task.

  Args:
    runs: those without a trained evaluation are passed over.
  """
  tasks: dict[str, dict[str, statistics.Evaluation]] = {}
  for run, name in zip(runs, names(runs), strict=True):
    if "trained" in run.evaluations:
      trained = run.evaluations["trained"]
      key = f"{trained.task}, {len(trained.ids)} problems"
      tasks.setdefault(key, {})[name] = trained
  return [
    statistics.table(evaluations, title=f"trained  ·  {task}")
    for task, evaluations in tasks.items()
    if len(evaluations) > 1
  ]


def plain(table: rich.table.Table) -> dict[str, Any]:
  """A table of `estimates` as JSON values.

  Args:
    table: whose first column holds labels, the others means with intervals.

  Returns:
    "title", "columns" and "rows", each with "label", "cells" ("mean",
    "interval", "sign": of a difference that is none by chance) and "end",
    whether a section ends there.
  """
  labels, *columns = ([*column.cells] for column in table.columns)
  return {
    "title": str(table.title),
    "columns": [str(column.header) for column in table.columns[1:]],
    "rows": [
      {
        "label": str(label),
        "cells": [_cell(column[i]) for column in columns],
        "end": row.end_section,
      }
      for i, (label, row) in enumerate(zip(labels, table.rows, strict=True))
    ],
  }


def _cell(text: rich.text.Text) -> dict[str, Any]:
  mean, _, interval = text.plain.partition(" ")
  styles = " ".join(str(span.style) for span in text.spans)
  sign = ("green" in styles) - ("red" in styles)
  return {"mean": mean, "interval": interval, "sign": sign}
