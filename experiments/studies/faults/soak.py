"""Checks that memory, open files and processes of a long run do not grow.

A save or an evaluation needs about 100 MB of additional memory for a moment,
but the limit on the growth is 1 MB in 100 steps. A line through all readings
would therefore depend on the moments at which the readings were taken. Memory
that leaks is also occupied between two saves, so only the lowest reading
between two saves counts. The slope of a line through the lowest readings of
memory must stay below the limit. The lowest readings of open files and of
processes must not be higher in the second half of the run than in the first.
"""

from __future__ import annotations

import pathlib
import time

import numpy as np

from experiments.studies.faults import runs
from experiments.studies.faults.outcome import Outcome, Report

STEPS = 2000
# First step that is measured. In the steps before it the allocator still grows.
FIRST_STEP = 1000
SAVE_INTERVAL = 100  # steps between two checkpoints
LIMIT = 1.0  # maximal growth of the memory in MB per 100 steps


def soak(folder: pathlib.Path, steps: int, report: Report) -> Outcome:
  """Starts a run and measures its process about ten times per second.

  Args:
    folder: folder that will contain the workdir and the log of the run.
    steps: number of steps of the run.
    report: function that prints a line of progress.
  """
  flags = (
    f"--config.steps={steps}",
    f"--config.checkpoint_every={SAVE_INTERVAL}",
    "--config.evaluate_every=500",
    "--config.rollouts_every=0",
  )
  run = runs.Run(folder / "soak", flags, folder / "soak.log")
  rows = []
  while run.is_running:
    step = runs.last_logged_step(run.workdir)
    # After the last step the run evaluates, writes its report and frees memory.
    if FIRST_STEP <= step < steps and (readings := _measure(run.pid)):
      rows.append((step, *readings))
      if len(rows) % 50 == 0:
        memory, files, _ = readings
        report(f"step {step} of {steps}: {memory:.0f} MB, {files} open files")
    time.sleep(0.1)
  status = run.wait()
  if status or not rows:
    return Outcome(
      fault=f"{steps} steps", times=1, recovered=0, notes=(run.last_line,)
    )
  # Each `[N]`, for N readings.
  reading_steps, memory, files, processes = np.array(rows, float).T
  lowest_memory = lowest_readings(reading_steps, memory)
  slope = fit_slope(lowest_memory)
  slope_of_all, _ = np.polyfit(reading_steps, memory, 1)
  notes = [
    f"memory grows by {100 * slope:+.3f} MB in 100 steps between saves (limit "
    f"{LIMIT:g}) and by {100 * slope_of_all:+.3f} MB if the readings during "
    f"saves are included; measured after step {FIRST_STEP}",
    "lowest memory between saves in MB: "
    + " ".join(f"{low:.1f}" for low in lowest_memory[1]),
  ]
  is_flat = 100 * slope < LIMIT
  for name, readings in (
    ("open files", files),
    ("processes and threads", processes),
  ):
    _, lows = lowest_readings(reading_steps, readings)
    first_half, second_half = np.array_split(lows, 2)
    is_flat &= second_half.max() <= first_half.max()
    notes.append(
      f"{name} between saves: at most {first_half.max():.0f} in the first "
      f"half and {second_half.max():.0f} in the second; during saves "
      f"{readings.max():.0f}"
    )
  return Outcome(
    fault=f"{steps} steps",
    times=1,
    recovered=int(is_flat),
    notes=tuple(notes),
  )


def lowest_readings(
  steps: np.ndarray, readings: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the lowest reading of each block of `SAVE_INTERVAL` steps.

  Args:
    steps: `[N]` number of finished steps at each reading, in ascending order.
    readings: `[N]` measured values.

  Returns:
    The steps and the values of the lowest readings, both `[blocks]`.
  """
  blocks = steps // SAVE_INTERVAL
  lows = [
    np.flatnonzero(blocks == block)[readings[blocks == block].argmin()]
    for block in np.unique(blocks)
  ]
  return steps[lows], readings[lows]


def fit_slope(points: tuple[np.ndarray, np.ndarray]) -> float:
  """Returns the slope of the least-squares line through (steps, values)."""
  return float(np.polyfit(*points, 1)[0])


def _measure(pid: int) -> tuple[float, int, int] | None:
  """Returns memory, files and threads of a process; None if it has ended."""
  root = pathlib.Path("/proc", str(pid))
  try:
    status = dict(
      line.split(":", 1) for line in (root / "status").read_text().splitlines()
    )
    children = sum(
      len(path.read_text().split()) for path in root.glob("task/*/children")
    )
    return (
      int(status["VmRSS"].split()[0]) / 1024,  # resident memory in MB
      len(list((root / "fd").iterdir())),  # open files
      int(status["Threads"]) + children,  # threads and child processes
    )
  except (OSError, KeyError, ValueError):
    return None
