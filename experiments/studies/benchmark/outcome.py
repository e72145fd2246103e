"""What a benchmark gives back."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import rich.box
import rich.table


@dataclasses.dataclass(frozen=True)
class Outcome:
  """Numbers for a file, a table for a person, and whether it is good enough.

  Attributes:
    results: JSON values.
    table: the same, to read.
    passed: whether the benchmark's limits hold.
    verdict: one sentence: the limit, and how near it was.
  """

  results: dict[str, Any]
  table: rich.table.Table
  passed: bool
  verdict: str


@dataclasses.dataclass(frozen=True)
class Row:
  """One figure beside a peer's, or one of ours alone.

  Attributes:
    name: what was measured, and beside whom.
    shape: of the model and the batch.
    unit: of `ours` and `peer`, such as "tokens/s".
    ours, peer: medians; `peer` None where there is none.
    ratio: how many times better ours is, the median over neighbouring pairs.
    cpu_ratio: the same of processor time, which a busy machine disturbs less.
    bound_fraction: of what the machine can do at most, 1 at the bound.
    work: of a call of ours, `machine.Machine.work`: what it computes and moves
      at least, and which share of the machine's limits that is.
    settings: of each side, `{"ours": ..., "peer": ...}`, where it was fastest.
    limit: what `ratio` must reach; None: reported only.
    bound_limit: what `bound_fraction` must reach; None: reported only.
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
    """The limits that are missed, in words."""
    missed = []
    for what, value, limit in (
      ("ratio", self.ratio, self.limit),
      ("of the bound", self.bound_fraction, self.bound_limit),
    ):
      if limit is not None and value is not None and value < limit:
        missed.append(f"{self.name}: {what} {value:.2f} of {limit:.2f}")
    return missed

  @property
  def limited(self) -> bool:
    """Whether a limit was held against it."""
    return any(
      value is not None and limit is not None
      for value, limit in (
        (self.ratio, self.limit),
        (self.bound_fraction, self.bound_limit),
      )
    )


def of_rows(rows: Sequence[Row], **results: Any) -> Outcome:
  """The outcome that these rows are; passed where no limit is missed.

  Args:
    rows: of the table and of the file.
    **results: further JSON values for the file.
  """
  missed = [words for row in rows for words in row.shortfalls]
  held = sum(row.limited for row in rows)
  verdict = f"{held} of {len(rows)} rows have limits"
  verdict += f"; missed: {'; '.join(missed)}" if missed else ", and keep them"
  told = [
    dataclasses.asdict(row) | {"passed": not row.shortfalls} for row in rows
  ]
  return Outcome(
    results={"rows": told, **results},
    table=_table(rows),
    passed=not missed,
    verdict=verdict if held else "no row has a limit here",
  )


def _table(rows: Sequence[Row]) -> rich.table.Table:
  """Markdown: what is printed can be pasted."""
  shown = rich.table.Table(box=rich.box.MARKDOWN)
  shown.add_column("")
  shown.add_column("shape")
  shown.add_column("unit", no_wrap=True)
  for name in ("ours", "peer", "ratio", "CPU ratio", "limit", "of the bound"):
    shown.add_column(name, justify="right")
  shown.add_column("settings")
  shown.add_column("")
  for row in rows:
    bound = _number(row.bound_fraction)
    if row.bound_limit is not None:
      bound += f" (limit {row.bound_limit:g})"
    if row.work:
      bound += f", MFU {row.work['mfu']:.2g}"
      bound += f", bandwidth {row.work['bandwidth_fraction']:.2g}"
    shown.add_row(
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
  return shown


def _number(value: float | None) -> str:
  if value is None:
    return ""
  return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
