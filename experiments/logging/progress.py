"""Shows the progress of an evaluation, as a bar or as lines of text.

Example:

  with progress.bar_or_lines(console, "evaluation", total=256) as update:
    for num_done in range(64, 257, 64):
      ...  # evaluate 64 problems
      update(num_done)
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import jax
import rich.console
import rich.progress

# Function to call with the number of finished problems.
Update = Callable[[int], None]
SECONDS_BETWEEN_LINES = 10.0  # shortest time between two lines


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
  """Prints a line now, and returns a function that prints lines of progress.

  A line of progress has an estimate of the remaining time from the second
  update on. The time before the first update is not used for it, because it
  includes compilation. No line is printed when all problems are finished.

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
  start = last_line_time = time.monotonic()
  # Number of finished problems and time of the first update.
  first_update: tuple[int, float] | None = None
  print_line(f"{label}: {total} problems")

  def update(done: int) -> None:
    nonlocal first_update, last_line_time
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
      f"{label}: {done} of {total} problems, {now - start:.0f} s{remaining}"
    )

  return update
