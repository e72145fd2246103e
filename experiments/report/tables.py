"""Makes the tables of a report, for a terminal and for a page."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import rich.table
import rich.text

from experiments.evaluation import intervals, summary
from experiments.report.runs import Run, names
from experiments.training import config_keys, workdirs


def evaluation_table(run: Run) -> rich.table.Table | None:
  """Returns the table of a run: base, trained policy, and their difference.

  A missing evaluation has no column. Returns None if both are missing.
  """
  if not run.evaluations:
    return None
  tasks = sorted({e.task for e in run.evaluations.values()})
  title = "\n".join([run.name, *tasks, "95 % intervals over problems"])
  return summary.table(run.evaluations, title=title)


def speed(run: Run) -> str:
  """Returns the median speed of the logged steps as text, "" without any."""
  if "perf/tokens_per_s" not in run.series:
    return ""

  def median(name: str) -> float:
    values = run.series[name][1]
    return np.median(values[len(values) > 1 :])  # the first step compiles

  seconds, tokens = median("time/step_s"), median("perf/tokens_per_s")
  text = f"{seconds:.3g} s a step, {tokens:,.0f} tokens a second"
  if "perf/mfu" in run.series:
    text += f", {median('perf/mfu'):.1%} MFU"
  return f"{text} (medians)"


def comparison_tables(runs: Sequence[Run]) -> list[rich.table.Table]:
  """Returns tables of the trained policies and their differences to the first.

  There is one table for each task, problems and number of samples that several
  runs share. Runs whose configs differ only in the seed are one row.
  """
  shared: dict[Any, dict[str, Run]] = {}
  for name, run in zip(names(runs), runs, strict=True):
    if trained := run.evaluations.get("trained"):
      key = (trained.task, trained.ids.tobytes(), trained.samples)
      shared.setdefault(key, {})[name] = run
  return [
    _comparison(_rows(named)) for named in shared.values() if len(named) > 1
  ]


def _rows(named: Mapping[str, Run]) -> dict[str, dict[Any, summary.Evaluation]]:
  """Returns `{label: evaluations by seed}`; a single run has the seed None."""
  groups: dict[str, list[str]] = {}
  for name, run in named.items():
    config = json.dumps(_without_seed(run.config), sort_keys=True)
    groups.setdefault(config, []).append(name)
  rows: dict[str, dict[Any, summary.Evaluation]] = {}
  for members in groups.values():
    seeds = [named[name].config.get("seed") for name in members]
    # Runs that repeat a seed are not independent.
    is_group = 1 < len(set(seeds)) == len(seeds)
    label = re.sub(r"[-_]?seed_\d+$", "", members[0]) or members[0]
    label += f", {len(seeds)} seeds"
    if label in rows:  # of folders that differ in no more than the seed
      label = f"{members[0]} and more, {len(seeds)} seeds"
    for name, seed in zip(members, seeds, strict=True):
      row = rows.setdefault(label if is_group else name, {})
      row[seed if is_group else None] = named[name].evaluations["trained"]
  return rows


def _without_seed(config: Mapping[str, Any]) -> dict[str, Any]:
  """Returns a config without its seed and that of the run it starts from."""
  start: Any = config.get("init_from") or config.get("base")
  if isinstance(start, str) and workdirs.is_run(start):
    start = workdirs.read_config(start).to_dict()
  elif start and not isinstance(start, str):
    start = config_keys.complete(start, "base")  # as `read_config` does
  if start and not isinstance(start, str):
    start = _without_seed(start)
  return {**config, "seed": None, "init_from": None, "base": start}


def _comparison(
  rows: Mapping[str, Mapping[Any, summary.Evaluation]],
) -> rich.table.Table:
  """Returns a table of `_rows`, whose differences are to the first row."""
  first, *_ = rows.values()
  evaluations = [e for row in rows.values() for e in row.values()]
  e = evaluations[0]
  title = (
    f"trained  ·  {e.task}, {len(e.ids)} problems, {e.samples} samples\n"
    "95 % intervals: over problems (bootstrap); for several seeds, over seeds\n"
    "(Student). Differences to the first row: paired by problem, or by seed."
  )
  labels = list(rows)
  if max(map(len, labels)) > 16:  # too long for 80 columns
    labels = [str(number + 1) for number in range(len(rows))]
    title += "".join(map("\n{}: {}".format, labels, rows))
  lines = {}
  for label, row in zip(labels, rows.values(), strict=True):
    estimates = _over_seeds([e.estimates for e in row.values()])
    lines[label] = {"trained": estimates}
    pairs = [(first[seed], row[seed]) for seed in row if seed in first]
    if row is not first and len(pairs) >= min(2, len(row)):
      changes = [summary.compare(*pair) for pair in pairs]
      lines[label][summary.DIFFERENCE] = _over_seeds(changes)
  return summary.make_table(evaluations, lines, title)


def _over_seeds(
  results: Sequence[dict[str, summary.Estimate]],
) -> dict[str, summary.Estimate]:
  """Returns means with Student's intervals; a single result stays as it is."""
  if len(results) == 1:
    return results[0]
  means = np.array([[e.mean for e in result.values()] for result in results])
  bounds = zip(means.mean(0), *intervals.student_interval(means), strict=True)
  return dict(zip(results[0], map(summary.Estimate._make, bounds), strict=True))


def to_json(table: rich.table.Table) -> dict[str, Any]:
  """Converts a table of `summary` to JSON values.

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
