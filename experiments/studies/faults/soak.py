"""A long run: its memory, open files and processes stay as they are.

A save or an evaluation needs memory for a moment, ten times what a thousand
steps may add, and where those moments fall would decide a fit through all
readings. What does not go away is seen between them: of the steps from one save
to the next the least reading counts: a line is laid through those of memory,
and those of open files and of processes may not rise.
"""

from __future__ import annotations

import pathlib
import time

import numpy as np

from experiments.studies.faults import runs
from experiments.studies.faults.outcome import Outcome, Tell

STEPS = 2000
WARM = 1000  # steps after which the allocator has settled
SAVE = 100  # steps between two checkpoints
LIMIT = 1.0  # MB in 100 steps


def soak(folder: pathlib.Path, steps: int, tell: Tell) -> Outcome:
  """Measures a run from outside, ten times a second.

  Args:
    folder: for the run.
    steps: how many.
    tell: where progress goes.
  """
  words = (
    f"--config.steps={steps}",
    f"--config.checkpoint_every={SAVE}",
    "--config.evaluate_every=500",
    "--config.rollouts_every=0",
  )
  run = runs.Run(folder / "soak", words, folder / "soak.log")
  rows = []
  while run.is_running:
    done = runs.logged(run.workdir)
    # After the last step it evaluates, reports and lets go of what it held.
    if WARM <= done < steps and (now := _measure(run.number)):
      rows.append((done, *now))
      if len(rows) % 50 == 0:
        tell(f"step {done} of {steps}: {now[0]:.0f} MB, {now[1]} files")
    time.sleep(0.1)
  status = run.wait()
  if status or not rows:
    return Outcome(f"{steps} steps", 1, 0, 0, 0, (run.last_line,))
  at, memory, files, processes = np.array(rows, float).T
  memory_floor = floor(at, memory)
  slope = growth(memory_floor)
  through_all, _ = np.polyfit(at, memory, 1)
  told = [
    f"{100 * slope:+.3f} MB of memory in 100 steps between saves (limit "
    f"{LIMIT:g}), {100 * through_all:+.3f} through all readings, saves "
    f"included; after step {WARM}",
    f"least MB: {' '.join(f'{low:.1f}' for low in memory_floor[1])}",
  ]
  flat = 100 * slope < LIMIT
  for what, readings in (
    ("open files", files),
    ("processes and threads", processes),
  ):
    first, later = np.array_split(floor(at, readings)[1], 2)
    flat &= later.max() <= first.max()
    told.append(
      f"{what} between saves: at most {first.max():.0f}, then "
      f"{later.max():.0f}; with saves {readings.max():.0f}"
    )
  return Outcome(f"{steps} steps", 1, int(flat), 0, 0, tuple(told))


def floor(
  steps: np.ndarray, readings: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """The least reading of each `SAVE` steps, and at which step it was.

  Args:
    steps: `[N]`, finished at each reading, not falling.
    readings: `[N]`.

  Returns:
    (steps, readings), of each block one.
  """
  block = steps // SAVE
  lows = [
    np.flatnonzero(block == one)[readings[block == one].argmin()]
    for one in np.unique(block)
  ]
  return steps[lows], readings[lows]


def growth(points: tuple[np.ndarray, np.ndarray]) -> float:
  """The slope of a line through them, by least squares."""
  return float(np.polyfit(*points, 1)[0])


def _measure(process: int) -> tuple[float, int, int] | None:
  """(resident MB, open files, threads and children); None once it is gone."""
  root = pathlib.Path("/proc", str(process))
  try:
    status = dict(
      line.split(":", 1) for line in (root / "status").read_text().splitlines()
    )
    children = sum(
      len(path.read_text().split()) for path in root.glob("task/*/children")
    )
    return (
      int(status["VmRSS"].split()[0]) / 1024,
      len(list((root / "fd").iterdir())),
      int(status["Threads"]) + children,
    )
  except (OSError, KeyError, ValueError):
    return None
