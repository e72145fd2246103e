"""Shows what a command is doing, and the progress of an evaluation.

Example:

  with progress.bar_or_lines(console, "evaluation", total=256) as update:
    for num_done in range(64, 257, 64):
      ...  # evaluate 64 problems
      update(num_done)

  with progress.Heartbeat(print) as heartbeat:
    heartbeat.start("compiling")
    ...  # prints "compiling, 5 s", "compiling, 10 s", "compiling, 20 s", ...
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import rich.console
import rich.progress

# Function to call with the number of finished problems.
Update = Callable[[int], None]
SECONDS_BETWEEN_LINES = 10.0  # shortest time between two lines
FIRST_SECONDS = 5.0  # time after which a heartbeat prints its first line
MAX_SECONDS = 60.0  # longest time between two lines of a heartbeat
FIRST_BATCH = "compiling and sampling the first batch"


class _Work(NamedTuple):
  """Work that a heartbeat reports: label, start, seconds to the first line."""

  label: str
  start: float
  first_seconds: float


class Heartbeat:
  """Prints lines while nothing else can be reported, such as while compiling.

  A line has a label and the seconds since `start`. The first line comes after
  `first_seconds`; the time between two lines then doubles up to a minute. A
  thread prints, so that the main thread can wait for JAX. Only process 0
  prints.

  Args:
    print_line: function that prints a line.
  """

  def __init__(self, print_line: Callable[[str], None]) -> None:
    self._print_line = print_line
    self._work: _Work | None = None
    self._closed = threading.Event()

  def start(self, label: str, first_seconds: float = FIRST_SECONDS) -> None:
    """Sets the label and starts to count; replaces an earlier label.

    Args:
      label: what is being done.
      first_seconds: time after which the first line is printed.
    """
    self._work = _Work(label, time.perf_counter(), first_seconds)

  def stop(self) -> None:
    """Prints no more lines until `start` is called again."""
    self._work = None

  def __enter__(self) -> Heartbeat:
    if jax.process_index() == 0:
      threading.Thread(target=self._run, daemon=True).start()
    return self

  def __exit__(self, *_: object) -> None:
    self.stop()
    self._closed.set()

  def _run(self) -> None:
    """Prints the lines that are due, until the heartbeat is closed."""
    reported: _Work | None = None
    due: float  # it is set together with `reported`
    while not self._closed.wait(0.25):
      work = self._work  # the main thread may replace it at any time
      if work is None:
        continue
      if work is not reported:
        reported, due = work, work.first_seconds
      elapsed = time.perf_counter() - work.start
      if elapsed >= due:
        self._print_line(f"{work.label}, {elapsed:.0f} s")
        due += min(due, MAX_SECONDS)


@contextlib.contextmanager
def bar_or_lines(
  console: rich.console.Console, label: str, total: int
) -> Iterator[Update]:
  """Shows a bar if the console is a terminal, else lines; only in process 0.

  Args:
    console: console to print to.
    label: text in front of the bar and of each line.
    total: number of problems.

  Yields:
    The function to call with the number of finished problems.
  """
  if not console.is_terminal or jax.process_index() != 0:
    with lines(
      lambda line: console.print(
        line, soft_wrap=True, highlight=False, markup=False
      ),
      label,
      total,
    ) as update:
      yield update
    return
  columns = (
    rich.progress.TextColumn("{task.description}"),
    rich.progress.BarColumn(bar_width=24),
    rich.progress.MofNCompleteColumn(),
    rich.progress.TimeElapsedColumn(),
    rich.progress.TimeRemainingColumn(),
  )
  with rich.progress.Progress(*columns, console=console) as bar:
    task = bar.add_task(f"{label}: {FIRST_BATCH}", total=total)
    yield lambda done: bar.update(task, completed=done, description=label)


@contextlib.contextmanager
def lines(
  print_line: Callable[[str], None],
  label: str,
  total: int,
  seconds: float = SECONDS_BETWEEN_LINES,
  unit: str = "problems",
  first_batch: str = FIRST_BATCH,
) -> Iterator[Update]:
  """Prints a line at the start, and yields a function that prints further ones.

  Before the first call of that function, a `Heartbeat` prints lines. A line of
  progress has an estimate of the remaining time from the second update on. The
  time before the first update is not used for it, because it includes
  compilation. No line is printed when everything is finished.

  Args:
    print_line: function that prints a line. Only process 0 calls it.
    label: text in front of each line.
    total: number of units.
    seconds: shortest time between two lines.
    unit: what is counted, in the plural.
    first_batch: what is done before the first update.

  Yields:
    The function to call with the number of finished problems.
  """
  if jax.process_index() != 0:
    yield lambda done: None
    return
  start = last_line_time = time.monotonic()
  # Number of finished problems and time of the first update.
  first_update: tuple[int, float] | None = None
  print_line(f"{label}: {total} {unit}")

  def update(done: int) -> None:
    nonlocal first_update, last_line_time
    heartbeat.stop()
    now = time.monotonic()
    first_update = first_update or (done, now)
    if done >= total or now - last_line_time < seconds:
      return
    last_line_time = now
    first_done, first_time = first_update
    remaining = ""
    if done > first_done:
      seconds_each = (now - first_time) / (done - first_done)
      remaining = f", {seconds_each * (total - done):.0f} s left"
    print_line(
      f"{label}: {done} of {total} {unit}, {now - start:.0f} s{remaining}"
    )

  with Heartbeat(print_line) as heartbeat:
    heartbeat.start(f"{label}: {first_batch}")
    yield update
