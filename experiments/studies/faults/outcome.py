"""What came of one sort of fault."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

Tell = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Outcome:
  """One row of the table.

  Attributes:
    fault: what was done.
    times: how often.
    recovered: after how many of them the run went on, or said why it cannot.
    lost_steps: that were made again, over all of them.
    silent_differences: from the undisturbed run, of arrays, metrics and files.
    notes: what else a reader should know, a line each.
  """

  fault: str
  times: int
  recovered: int
  lost_steps: int = 0
  silent_differences: int = 0
  notes: tuple[str, ...] = ()

  @property
  def passed(self) -> bool:
    return self.recovered == self.times and not self.silent_differences


@dataclasses.dataclass(frozen=True)
class Skipped:
  """A fault that this machine does not let us make.

  Attributes:
    fault: which.
    reason: why not.
  """

  fault: str
  reason: str
