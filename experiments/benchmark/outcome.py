"""What a benchmark gives back."""

from __future__ import annotations

import dataclasses
from typing import Any

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
