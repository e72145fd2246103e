"""The result of a benchmark: numbers, a table, and whether limits hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import rich.box
import rich.table


@dataclasses.dataclass(frozen=True)
class Outcome:
  """Result of a benchmark.

  Attributes:
    results: the numbers, as JSON values.
    table: the same numbers as a table to print.
    limits_met: whether all limits of the benchmark hold.
    verdict: one sentence that names the limits, or those that were missed.
  """

  results: dict[str, Any]
  table: rich.table.Table
  limits_met: bool
  verdict: str


@dataclasses.dataclass(frozen=True)
class Row:
  """One measured value of this project, with the peer's value if there is one.

  "peer" may also be another loop or another setting of this project.

  Attributes:
    name: what was measured, and the peer that it was compared with.
    shape: shape of the model and the batch.
    unit: unit of `ours` and `peer`, such as "tokens/s".
    ours: value of this project, a median over calls.
    peer: value of the peer; None without a peer.
    ratio: how many times better `ours` is. Both sides are timed back to back;
      the ratio is the median over these pairs.
    cpu_ratio: the same ratio in processor time, which other programs on the
      machine disturb less.
    bound_fraction: least time that the machine allows for a call, divided by
      the time of the call (`machine.Machine.least_seconds`).
    work: operations and bytes that a call of ours needs at least, and the share
      of the machine's limits that it reaches (`machine.Machine.utilization`).
    settings: the fastest setting of each side, `{"ours": ..., "peer": ...}`.
    limit: least allowed `ratio`; None for no limit.
    bound_limit: least allowed `bound_fraction`; None for no limit.
  """

  name: str
  shape: str
  unit: str
  ours: float
  peer: float | None = None
  ratio: float | None = None
  cpu_ratio: float | None = None
  bound_fraction: float | None = None
  work: dict[str, float] = dataclasses.field(default_factory=dict)
  settings: dict[str, str] = dataclasses.field(default_factory=dict)
  limit: float | None = None
  bound_limit: float | None = None

  @property
  def shortfalls(self) -> list[str]:
    """One phrase for each limit that is missed."""
    missed = []
    for what, value, limit in (
      ("ratio", self.ratio, self.limit),
      ("of the bound", self.bound_fraction, self.bound_limit),
    ):
      if limit is not None and value is not None and value < limit:
        missed.append(f"{self.name}: {what} {value:.2f} of {limit:.2f}")
    return missed

  @property
  def has_limit(self) -> bool:
    """True if this row has a value with a limit."""
    return any(
      value is not None and limit is not None
      for value, limit in (
        (self.ratio, self.limit),
        (self.bound_fraction, self.bound_limit),
      )
    )


def from_rows(rows: Sequence[Row], **results: Any) -> Outcome:
  """Makes an outcome of rows; its limits are met if no row misses a limit.

  Args:
    rows: rows of the table and of the JSON file.
    **results: further JSON values for the file.
  """
  missed = [shortfall for row in rows for shortfall in row.shortfalls]
  num_limited = sum(row.has_limit for row in rows)
  verdict = f"{num_limited} of {len(rows)} rows have limits"
  verdict += f"; missed: {'; '.join(missed)}" if missed else ", and keep them"
  json_rows = [
    dataclasses.asdict(row) | {"passed": not row.shortfalls} for row in rows
  ]
  return Outcome(
    results={"rows": json_rows, **results},
    table=_table(rows),
    limits_met=not missed,
    verdict=verdict if num_limited else "no row has a limit here",
  )


def _table(rows: Sequence[Row]) -> rich.table.Table:
  """Returns a table in Markdown, so that the output can be pasted."""
  table = rich.table.Table(box=rich.box.MARKDOWN)
  table.add_column("")
  table.add_column("shape")
  table.add_column("unit", no_wrap=True)
  for name in ("ours", "peer", "ratio", "CPU ratio", "limit", "of the bound"):
    table.add_column(name, justify="right")
  table.add_column("settings")
  table.add_column("")
  for row in rows:
    bound = _number(row.bound_fraction)
    if row.bound_limit is not None:
      bound += f" (limit {row.bound_limit:g})"
    if row.work:
      bound += f", MFU {row.work['mfu']:.2g}"
      bound += f", bandwidth {row.work['bandwidth_fraction']:.2g}"
    table.add_row(
      row.name,
      row.shape,
      row.unit,
      _number(row.ours),
      _number(row.peer),
      _number(row.ratio),
      _number(row.cpu_ratio),
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
