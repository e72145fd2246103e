"""Compares the trained policies of several runs.

Runs whose configs differ only in the seed are a group, which has one row. The
interval of a single run is over problems, and that of a group over seeds. Each
row is compared with the first one, paired by problem or by seed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import rich.table
import rich.text
from etils import epath

from experiments.evaluation import intervals, summary
from experiments.report.runs import Run, names, read_object
from experiments.training import workdirs

_LONGEST_LABEL = 16  # fits in 80 columns; longer ones are numbered instead
# Lines of a title, by whether a row has several seeds.
_INTERVALS = {
  False: "one run: 95 % bootstrap interval over problems; difference to the "
  "first\nrow paired by problem",
  True: "seeds: mean over seeds, Student's 95 % interval; difference to the "
  "first row\npaired by seed",
}
# A row: the evaluations of the trained policies of a run or a group, by seed.
_Row = dict[Any, summary.Evaluation]


def comparison_tables(runs: Sequence[Run]) -> list[rich.table.Table]:
  """Returns tables of the trained policies and of their differences.

  There is one table for each task, problems and number of samples that several
  runs were evaluated on. A table has a section for each statistic, with a line
  for each run or group, so that its width does not depend on their number.
  """
  shared: dict[Any, dict[str, Run]] = {}
  for name, run in zip(names(runs), runs, strict=True):
    if "trained" in run.evaluations:
      trained = run.evaluations["trained"]
      key = (trained.task, trained.ids.tobytes(), trained.samples)
      shared.setdefault(key, {})[name] = run
  return [_table(_rows(named)) for named in shared.values() if len(named) > 1]


def _rows(named: dict[str, Run]) -> dict[str, _Row]:
  """Returns the rows of named runs, by their labels."""
  groups: dict[str, dict[str, Run]] = {}
  for name, run in named.items():
    config = json.dumps(_without_seed(run.config), sort_keys=True)
    groups.setdefault(config if run.config else name, {})[name] = run
  rows: dict[str, _Row] = {}
  for group in groups.values():
    by_name = {
      name: {run.config.get("seed"): run.evaluations["trained"]}
      for name, run in group.items()
    }
    row = {seed: e for one in by_name.values() for seed, e in one.items()}
    if len(row) == 1 or len(row) < len(group):
      rows |= by_name  # runs that repeat a seed are not independent
      continue
    name, *_ = by_name
    count = f"{len(row)} seeds"
    # The name up to the seed, unless another group has the same.
    label = f"{re.sub(r'[-_]?seed_[0-9]+', '', name) or name}, {count}"
    rows[f"{name}, {count}" if label in rows else label] = row
  return rows


def _without_seed(config: dict[str, Any]) -> dict[str, Any]:
  """Returns a config without its seed and that of the run it starts from."""
  # Runs of a sweep start from a base in a folder of its own for each seed.
  start: Any = config.get("base")
  if source := config.get("init_from"):
    start = read_object(epath.Path(source) / workdirs.CONFIG_FILE) or source
  if isinstance(start, dict) and start:
    start = _without_seed(start)
  return config | {"seed": None, "init_from": None, "base": start}


def _table(rows: dict[str, _Row]) -> rich.table.Table:
  """Returns the table of rows of one task."""
  first, *_ = rows.values()
  evaluations = [e for row in rows.values() for e in row.values()]
  e = evaluations[0]
  titles = [f"trained  ·  {e.task}, {len(e.ids)} problems, {e.samples} samples"]
  titles += [
    text
    for is_group, text in _INTERVALS.items()
    if any(is_group == (len(row) > 1) for row in rows.values())
  ]
  shown = dict(zip(rows, rows, strict=True))
  if max(map(len, rows)) > _LONGEST_LABEL:
    shown = {label: str(number) for number, label in enumerate(rows, 1)}
    titles += [f"{number}: {label}" for label, number in shown.items()]
  table = summary.empty_table("\n".join(titles))
  table.add_column("", no_wrap=True)
  table.add_column("trained", justify="right", no_wrap=True)
  table.add_column("difference", justify="right", no_wrap=True)
  estimates = {
    label: _over_seeds([e.estimates for e in row.values()])
    for label, row in rows.items()
  }
  differences = {
    label: {} if row is first else _differences(first, row)
    for label, row in rows.items()
  }
  for section in summary.sections(evaluations):
    for name, heading in section.items():
      for label in rows:
        difference = rich.text.Text()
        if name in differences[label]:
          difference = summary.cell(name, differences[label][name], signed=True)
        value = summary.cell(name, estimates[label][name])
        table.add_row(f"{heading:9}  {shown[label]}", value, difference)
      table.add_section()
  return table


def _differences(first: _Row, row: _Row) -> dict[str, summary.Estimate]:
  """Returns "row minus first" by statistic; {} if seeds form no pairs."""
  pairs = [(first[seed], row[seed]) for seed in row if seed in first]
  if len(first) == len(row) == 1:  # two runs, of any seeds
    pairs = [(*first.values(), *row.values())]
  elif len(pairs) < 2:
    return {}
  return _over_seeds([summary.compare(*pair) for pair in pairs])


def _over_seeds(
  estimates: Sequence[dict[str, summary.Estimate]],
) -> dict[str, summary.Estimate]:
  """Returns means over seeds with Student's intervals; one seed keeps its."""
  if len(estimates) == 1:
    return estimates[0]
  values = np.array([[e.mean for e in one.values()] for one in estimates])
  ends = (values.mean(0), *intervals.student_interval(values))
  return {
    name: summary.Estimate(*(float(end[i]) for end in ends))
    for i, name in enumerate(estimates[0])
  }
