"""Shows the progress of a long evaluation: a bar on a terminal, lines elsewhere.

Example:

  with progress.bar_or_lines(console, "evaluation", total=256) as update:
    for done in range(64, 257, 64):
      ...
      update(done)
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import jax
import rich.console
import rich.progress

Update = Callable[[int], None]  # called with the number of finished problems
SECONDS_BETWEEN_LINES = 10.0


@contextlib.contextmanager
def bar_or_lines(
  console: rich.console.Console, label: str, total: int
) -> Iterator[Update]:
  """Shows a bar on a terminal and lines elsewhere, in process 0 only.

  Args:
    console: console to print to.
    label: text in front of the bar and of each line.
    total: number of problems.

  Yields:
    The function to call with the number of finished problems.
  """
  if not console.is_terminal or jax.process_index() != 0:
    yield print_lines(
      lambda line: console.print(line, soft_wrap=True, highlight=False),
      label,
      total,
    )
    return
  columns = (
    rich.progress.TextColumn("{task.description}"),
    rich.progress.BarColumn(bar_width=24),
    rich.progress.MofNCompleteColumn(),
    rich.progress.TimeElapsedColumn(),
    rich.progress.TimeRemainingColumn(),
  )
  with rich.progress.Progress(*columns, console=console) as bar:
    task = bar.add_task(label, total=total)
    yield lambda done: bar.update(task, completed=done)


def print_lines(
  print_line: Callable[[str], None],
  label: str,
  total: int,
  seconds: float = SECONDS_BETWEEN_LINES,
) -> Update:
  """Prints a line at the start, and a line with the progress now and then.

  The time left is estimated from the second call on, because the time up to the
  first call includes compilation.

  Args:
    print_line: function that prints a line. Only process 0 calls it.
    label: text in front of each line.
    total: number of problems.
    seconds: shortest time between two lines.

  Returns:
    The function to call with the number of finished problems.
  """
  if jax.process_index() != 0:
    return lambda done: None
  start = last_line = time.monotonic()
  first: tuple[int, float] | None = None  # finished problems, and the time
  print_line(f"{label}: {total} problems")

  def update(done: int) -> None:
    nonlocal first, last_line
    now = time.monotonic()
    first = first or (done, now)
    if done >= total or now - last_line < seconds:
      return
    last_line = now
    first_done, first_time = first
    left = ""
    if done > first_done:
      seconds_each = (now - first_time) / (done - first_done)
      left = f", {seconds_each * (total - done):.0f} s left"
    print_line(
      f"{label}: {done} of {total} problems, {now - start:.0f} s{left}"
    )

  return update
