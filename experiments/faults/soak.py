"""A long run: its memory, open files and processes stay as they are.

A save or an evaluation needs memory for a moment, ten times what a thousand
steps may add, and where those moments fall would decide a fit through all
readings. What does not go away is seen between them: of the steps from one save
to the next the least reading counts, and a line is laid through those.
"""

from __future__ import annotations

import pathlib
import time

import numpy as np

from experiments.faults import runs
from experiments.faults.outcome import Outcome, Tell

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
  slope, floors = growth(at, memory)
  through_all, _ = np.polyfit(at, memory, 1)
  half = len(at) // 2
  more_files = files[half:].max() - files[:half].max()
  more_processes = processes[half:].max() - processes[:half].max()
  flat = 100 * slope < LIMIT and more_files <= 0 and more_processes <= 0
  return Outcome(
    f"{steps} steps",
    1,
    int(flat),
    0,
    0,
    (
      f"{100 * slope:+.3f} MB of memory in 100 steps between saves (limit "
      f"{LIMIT:g}), {100 * through_all:+.3f} through all readings, saves "
      f"included; after step {WARM}",
      f"least MB between saves: {' '.join(f'{low:.1f}' for low in floors)}",
      f"open files {files[:half].max():.0f}, then {files[half:].max():.0f}; "
      f"processes and threads {processes[:half].max():.0f}, then "
      f"{processes[half:].max():.0f}",
    ),
  )


def growth(steps: np.ndarray, memory: np.ndarray) -> tuple[float, np.ndarray]:
  """How fast memory grows that no save gives back.

  Args:
    steps: `[N]`, finished at each reading, not falling.
    memory: `[N]`, of that reading.

  Returns:
    (per step, by least squares through the least reading of each `SAVE` steps
    at the step where it was read; those readings).
  """
  block = steps // SAVE
  lows = [
    np.flatnonzero(block == one)[memory[block == one].argmin()]
    for one in np.unique(block)
  ]
  slope, _ = np.polyfit(steps[lows], memory[lows], 1)
  return slope, memory[lows]


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
