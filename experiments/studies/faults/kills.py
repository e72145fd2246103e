"""Kills processes of a run at random moments with SIGKILL."""

from __future__ import annotations

import collections
import pathlib
import random
import shutil
import socket
import time
from collections.abc import Callable

from experiments.configs import faults
from experiments.studies.faults import runs
from experiments.studies.faults.outcome import Outcome, Report

MOMENTS = ("step", "checkpoint", "evaluation", "start")
# Moments at which one of two processes is killed. "start" is left out: before
# the processes are connected, the other would wait for a late one.
CONNECTED_MOMENTS = ("step", "checkpoint", "evaluation")
PATIENCE = 60.0  # time limit in seconds for a process to end after the other


def kill_process(
  kills: int, reference: pathlib.Path, rng: random.Random, report: Report
) -> Outcome:
  """Kills a run with one process during its start, steps, saves, evaluations.

  If a run reaches its end before it was killed `kills` times, another follows.

  Args:
    kills: number of kills.
    reference: workdir of the undisturbed run.
    rng: random generator that picks the moments.
    report: function that prints a line of progress.
  """
  folder = reference.parent
  counts = collections.Counter()
  recovered = lost = 0
  wrong: list[str] = []
  while counts.total() < kills:
    workdir = folder / "killed"
    was_killed = False
    while True:
      run = runs.Run(workdir, (), folder / "killed.log")
      moment = rng.choice(MOMENTS)
      killed = counts.total() < kills and kill_at(run, moment, rng)
      status = None if killed else run.wait()
      # A run recovered if it could be killed again or ended with status 0.
      recovered += was_killed and not status
      if not killed:
        break
      counts[moment] += 1
      lost += run.lost_steps
      was_killed = True
      report(
        f"kill {counts.total()} of {kills}: {moment}, after step "
        f"{runs.last_logged_step(workdir)}"
      )
    if status:
      wrong.append(f"ended with status {status}: {run.last_line}")
    wrong += runs.differences(reference, workdir)
    shutil.rmtree(workdir)
  moments = ", ".join(f"{counts[moment]} {moment}" for moment in MOMENTS)
  return Outcome(
    "SIGKILL",
    counts.total(),
    recovered,
    lost,
    len(wrong),
    (f"moments: {moments}", *wrong[:5]),
  )


def kill_at(run: runs.Run, moment: str, rng: random.Random) -> bool:
  """Kills a run at a moment; returns False if the run ended before.

  Args:
    run: the run.
    moment: one of `MOMENTS`.
    rng: random generator that varies the moment.
  """
  if moment == "start":
    # Spreads the kills over the start of the process.
    time.sleep(rng.uniform(0.0, 8.0))
  else:
    if not run.wait_until(_moment_condition(run, moment, rng)):
      return False
    # Spreads the kills over the duration of a step or a save.
    time.sleep(rng.uniform(0.0, 0.05))
  if not run.is_running:
    return False
  run.kill()
  return True


def _moment_condition(
  run: runs.Run, moment: str, rng: random.Random
) -> Callable[[], bool]:
  """Returns a function that reads from the files whether a moment has come."""
  workdir = run.workdir
  if moment == "checkpoint":
    # A temporary folder exists while a checkpoint is written. Those of earlier
    # processes, which were killed during a save, do not count.
    before = set((workdir / "checkpoints").glob("*tmp*"))
    return lambda: bool(set((workdir / "checkpoints").glob("*tmp*")) - before)
  if moment == "evaluation":
    # Until this process trains, the files show the state of the one before.
    return lambda: run.resumed_at is not None and _is_evaluating(workdir)
  steps, num_changes = [], rng.randint(1, 25)

  def has_stepped() -> bool:
    step = runs.last_logged_step(workdir)
    if not steps or steps[-1] != step:
      steps.append(step)
    return len(steps) > num_changes

  return has_stepped


def _is_evaluating(workdir: pathlib.Path) -> bool:
  """Returns whether an evaluation has started and its file does not exist."""
  done = runs.last_logged_step(workdir)
  config = faults.get_config()
  name = f"evaluation_{done:06d}.json"
  if done in (0, config.steps):
    name = "evaluation.json" if done else "evaluation_base.json"
  elif done % config.evaluate_every:
    return False
  return not (workdir / name).exists()


class Pair:
  """Two connected processes that run one experiment. The constructor starts them.

  Args:
    workdir: workdir of the run.

  Attributes:
    processes: the two processes, the coordinator first.
  """

  def __init__(self, workdir: pathlib.Path) -> None:
    # The system chooses a free port, which is free again after the `with`.
    with socket.socket() as probe:
      probe.bind(("localhost", 0))
      port = probe.getsockname()[1]
    flags = (f"--coordinator=localhost:{port}", "--processes=2")
    self.processes = [
      runs.Run(
        workdir,
        (*flags, f"--process={i}"),
        workdir.parent / f"{workdir.name}_{i}.log",
      )
      for i in range(2)
    ]

  def wait(self) -> list[int]:
    """Waits for both processes and returns their exit statuses."""
    return [process.wait() for process in self.processes]


def kill_one_of_two(
  kills: int, folder: pathlib.Path, rng: random.Random, report: Report
) -> Outcome:
  """Kills one of two processes of a run at random moments.

  The other process has to end within `PATIENCE` seconds and to print an error.
  Then both are started again.

  Args:
    kills: number of kills.
    folder: folder for the workdirs of the runs with and without kills.
    rng: random generator that picks the moments and the process to kill.
    report: function that prints a line of progress.
  """
  reference, workdir = folder / "two", folder / "two_killed"
  report("two processes: the undisturbed run starts")
  pair = Pair(reference)
  statuses = pair.wait()
  if any(statuses):
    last_lines = [process.last_line for process in pair.processes]
    raise RuntimeError(
      f"the two undisturbed processes ended with statuses {statuses} and the "
      f"messages {last_lines}"
    )
  done = recovered = lost = 0
  longest = 0.0
  wrong: list[str] = []
  while True:
    pair = Pair(workdir)
    victim = rng.randrange(2)
    moment = rng.choice(CONNECTED_MOMENTS)
    run, other = pair.processes[victim], pair.processes[1 - victim]
    if done == kills or not kill_at(run, moment, rng):
      if any(statuses := pair.wait()):
        wrong.append(f"ended with statuses {statuses}: {run.last_line}")
      if done == kills or not any(statuses):
        wrong += runs.differences(reference, workdir)
      if done == kills:
        break
      shutil.rmtree(workdir)
      continue
    done += 1
    start = time.monotonic()
    try:
      status = other.wait(PATIENCE)
    except TimeoutError:
      status = None  # it hangs, which does not count as recovered
    seconds = time.monotonic() - start
    longest = max(longest, seconds)
    lost += pair.processes[0].lost_steps
    # The other process has to fail with an error message.
    recovered += status not in (0, None) and bool(other.output.strip())
    report(
      f"kill {done} of {kills}: process {victim}, {moment}, after step "
      f"{runs.last_logged_step(workdir)}; the other process ended with status "
      f"{status} in {seconds:.0f} s"
    )
  return Outcome(
    "SIGKILL of one of two",
    done,
    recovered,
    lost,
    len(wrong),
    (f"the other process ended within {longest:.0f} s", *wrong[:5]),
  )
