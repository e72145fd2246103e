"""Makes the tables of a report, for a terminal and for a page."""

from __future__ import annotations

from typing import Any

import rich.table
import rich.text

from experiments.evaluation import summary
from experiments.report.runs import Run


def evaluation_table(run: Run) -> rich.table.Table | None:
  """Returns the table of a run: base, trained policy, and their difference.

  A missing evaluation has no column. Returns None if both are missing.
  """
  if not run.evaluations:
    return None
  title = f"{run.title}\n95 % intervals over problems"
  return summary.table(run.evaluations, title=title)


def to_json(table: rich.table.Table) -> dict[str, Any]:
  """Converts a table of `summary` or `comparison` to JSON values.

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
