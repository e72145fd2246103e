"""Shows how far a long evaluation is: a bar on a terminal, lines elsewhere.

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

Update = Callable[[int], None]  # takes the number of problems that are done
SECONDS_BETWEEN_LINES = 10.0


@contextlib.contextmanager
def bar_or_lines(
  console: rich.console.Console, label: str, total: int
) -> Iterator[Update]:
  """Shows a bar on a terminal and lines elsewhere, in process 0 alone.

  Args:
    console: where to.
    label: what is going on.
    total: number of problems.

  Yields:
    The function to call with the number of problems that are done.
  """
  if not console.is_terminal or jax.process_index() != 0:
    yield lines(
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


def lines(
  say: Callable[[str], None],
  label: str,
  total: int,
  seconds: float = SECONDS_BETWEEN_LINES,
) -> Update:
  """Says a line at the start, and now and then how far it is.

  The time left is estimated from the second call on: the time up to the first
  call includes compilation.

  Args:
    say: prints a line. Only process 0 calls it.
    label: what is going on.
    total: number of problems.
    seconds: least time from one line to the next.

  Returns:
    The function to call with the number of problems that are done.
  """
  if jax.process_index() != 0:
    return lambda done: None
  start = latest = time.monotonic()
  first: tuple[int, float] | None = None  # problems done, and when
  say(f"{label}: {total} problems")

  def update(done: int) -> None:
    nonlocal first, latest
    now = time.monotonic()
    first = first or (done, now)
    if done >= total or now - latest < seconds:
      return
    latest = now
    first_done, first_time = first
    left = ""
    if done > first_done:
      pace = (now - first_time) / (done - first_done)
      left = f", {pace * (total - done):.0f} s left"
    say(f"{label}: {done} of {total} problems, {now - start:.0f} s{left}")

  return update
