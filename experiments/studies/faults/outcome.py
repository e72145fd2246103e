"""The result of injecting one kind of fault."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

Report = Callable[[str], None]  # prints a line of progress


@dataclasses.dataclass(frozen=True)
class Outcome:
  """Result of injecting one kind of fault; a row of the printed table.

  Attributes:
    fault: name of the fault.
    times: number of times that it was injected.
    recovered: number of times that the run behaved as promised: it resumed, or
      it ended with an error message that names the reason.
    lost_steps: total number of steps that were run again after the faults.
    silent_differences: number of arrays, lines of metrics, files and verdicts
      that differ from those of the undisturbed run, plus the number of resumed
      runs that ended with an error.
    notes: further lines, printed below the table.
  """

  fault: str
  times: int
  recovered: int
  lost_steps: int = 0
  silent_differences: int = 0
  notes: tuple[str, ...] = ()

  @property
  def is_success(self) -> bool:
    """True if the run recovered from every fault and nothing differs."""
    return self.recovered == self.times and not self.silent_differences


@dataclasses.dataclass(frozen=True)
class Skipped:
  """A fault that cannot be injected on this machine.

  Attributes:
    fault: name of the fault.
    reason: reason, for example a missing permission.
  """

  fault: str
  reason: str
