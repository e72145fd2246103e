"""The result of a benchmark: numbers, a table, and whether limits hold."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import rich.box
import rich.table

from experiments.logging import json_files

WIDTH = 400  # characters per line, so that no cell of a table is wrapped


@dataclasses.dataclass(frozen=True)
class Outcome:
  """Result of a benchmark."""

  results: dict[str, Any]  # the numbers, as JSON values
  table: rich.table.Table  # the same numbers as a table to print
  limits_met: bool  # whether all limits of the benchmark hold
  verdict: str  # names the limits, or those that were missed

  def to_json(self) -> str:
    """Returns the numbers as the text of a JSON file."""
    strict = json_files.to_strict_json(self.results)
    return json.dumps(strict, indent=2) + "\n"


@dataclasses.dataclass(frozen=True)
class Row:
  """One measured value of this project, with the peer's value if there is one.

  "peer" may also be another loop or another setting of this project.
  """

  name: str  # what was measured, and the peer that it was compared with
  shape: str  # of the model and the batch
  unit: str  # of `ours` and `peer`, such as "tokens/s"
  ours: float  # a median over calls
  peer: float | None = None
  # How many times better `ours` is. Both sides are timed back to back; the
  # ratio is the median over these pairs.
  ratio: float | None = None
  # The same ratio in processor time, which other programs on the machine
  # disturb less.
  cpu_ratio: float | None = None
  # Least time that the machine allows for a call, divided by the time of the
  # call (`machine.Machine.least_seconds`).
  bound_fraction: float | None = None
  # `machine.Machine.utilization` of a call of ours.
  work: dict[str, float] = dataclasses.field(default_factory=dict)
  # The fastest setting of each side, `{"ours": ..., "peer": ...}`.
  settings: dict[str, str] = dataclasses.field(default_factory=dict)
  limit: float | None = None  # least allowed `ratio`
  bound_limit: float | None = None  # least allowed `bound_fraction`

  @property
  def limited(self) -> list[tuple[str, float, float]]:
    """Name, value and least allowed value of everything that has a limit."""
    checks = (
      ("ratio", self.ratio, self.limit),
      ("of the bound", self.bound_fraction, self.bound_limit),
    )
    return [check for check in checks if None not in check]

  @property
  def shortfalls(self) -> list[str]:
    """One phrase for each limit that is missed."""
    return [
      f"{self.name}: {what} {value:.2f} of {limit:.2f}"
      for what, value, limit in self.limited
      if value < limit
    ]


def from_rows(rows: Sequence[Row], **results: Any) -> Outcome:
  """Makes an outcome of rows; its limits are met if no row misses a limit.

  The keyword arguments are further JSON values.
  """
  missed = [shortfall for row in rows for shortfall in row.shortfalls]
  numlimited = sum(bool(row.limited) for row in rows)
  verdict = f"{numlimited} of {len(rows)} rows have limits"
  verdict += f"; missed: {'; '.join(missed)}" if missed else ", and keep them"
  json_rows = [
    dataclasses.asdict(row) | {"passed": not row.shortfalls} for row in rows
  ]
  return Outcome(
    results={"rows": json_rows, **results},
    table=_table(rows),
    limits_met=not missed,
    verdict=verdict if numlimited else "no row has a limit here",
  )


def _table(rows: Sequence[Row]) -> rich.table.Table:
  """Returns a table in Markdown, so that the output can be pasted."""
  table = rich.table.Table(box=rich.box.MARKDOWN)
  for title in ("", "shape", "unit"):
    table.add_column(title, no_wrap=title == "unit")
  for title in ("ours", "peer", "ratio", "CPU ratio", "limit", "of the bound"):
    table.add_column(title, justify="right")
  table.add_column("settings")
  table.add_column("")
  for row in rows:
    bound = _number(row.bound_fraction)
    if row.bound_limit is not None:
      bound += f" (limit {row.bound_limit:g})"
    if row.work:
      bound += f", MFU {row.work['mfu']:.2g}"
      bound += f", bandwidth {row.work['bandwidth_fraction']:.2g}"
    values = row.ours, row.peer, row.ratio, row.cpu_ratio
    table.add_row(
      row.name,
      row.shape,
      row.unit,
      *map(_number, values),
      "" if row.limit is None else f"{row.limit:g}",
      bound,
      "; ".join(f"{side}: {text}" for side, text in row.settings.items()),
      "FAIL" if row.shortfalls else "",
    )
  return table


def _number(value: float | None) -> str:
  if value is None:
    return ""
  return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
