"""Kills processes of runs with SIGKILL at random moments."""

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
# Moments at which one of two processes is killed. "start" is left out: a
# process whose partner dies before the two are connected waits for the partner.
CONNECTED_MOMENTS = ("step", "checkpoint", "evaluation")
PATIENCE = 60.0  # seconds in which a process must end after the other's death


def kill_process(
  kills: int, reference: pathlib.Path, rng: random.Random, report: Report
) -> Outcome:
  """Kills a run of one process at random moments, and resumes it each time.

  If a run ends before `kills` kills were made, a new run is started.

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
  numbers = counts.total(), recovered, lost, len(wrong)
  return Outcome("SIGKILL", *numbers, (f"moments: {moments}", *wrong[:5]))


def kill_at(run: runs.Run, moment: str, rng: random.Random) -> bool:
  """Kills a run at a moment; returns False if the run ended first.

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
  """Returns a function that reads from files whether the moment has come."""
  workdir = run.workdir
  if moment == "checkpoint":
    # A temporary folder exists while a checkpoint is written. The temporary
    # folders of earlier processes that were killed during a save do not count.
    earlier_folders = set((workdir / "checkpoints").glob("*tmp*"))
    return lambda: bool(
      set((workdir / "checkpoints").glob("*tmp*")) - earlier_folders
    )
  if moment == "evaluation":
    # Until this process trains, the files are those of an earlier process.
    return lambda: run.resumed_at is not None and _is_evaluating(workdir)
  # The moment has come when the logged step has changed `num_changes` times.
  steps, num_changes = [], rng.randint(1, 25)

  def has_stepped() -> bool:
    step = runs.last_logged_step(workdir)
    if not steps or steps[-1] != step:
      steps.append(step)
    return len(steps) > num_changes

  return has_stepped


def _is_evaluating(workdir: pathlib.Path) -> bool:
  """Returns whether an evaluation is due whose file does not exist yet."""
  step = runs.last_logged_step(workdir)
  config = faults.get_config()
  name = f"evaluation_{step:06d}.json"
  if step in (0, config.steps):
    name = "evaluation.json" if step else "evaluation_base.json"
  elif step % config.evaluate_every:
    return False
  return not (workdir / name).exists()


def start_pair(workdir: pathlib.Path) -> list[runs.Run]:
  """Starts two connected processes of one run, the coordinator first."""
  # The system chooses a free port, which is free again after the `with`.
  with socket.socket() as port_socket:
    port_socket.bind(("localhost", 0))
    port = port_socket.getsockname()[1]
  flags = (f"--coordinator=localhost:{port}", "--processes=2")
  return [
    runs.Run(
      workdir,
      (*flags, f"--process={i}"),
      workdir.parent / f"{workdir.name}_{i}.log",
    )
    for i in range(2)
  ]


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
  pair = start_pair(reference)
  statuses = [run.wait() for run in pair]
  if any(statuses):
    last_lines = [run.last_line for run in pair]
    raise RuntimeError(
      f"the two undisturbed processes ended with statuses {statuses} and the "
      f"messages {last_lines}"
    )
  num_killed = recovered = lost = 0
  longest = 0.0
  wrong: list[str] = []
  while True:
    pair = start_pair(workdir)
    killed_index = rng.randrange(2)
    moment = rng.choice(CONNECTED_MOMENTS)
    killed, survivor = pair[killed_index], pair[1 - killed_index]
    if num_killed == kills or not kill_at(killed, moment, rng):
      if any(statuses := [run.wait() for run in pair]):
        wrong.append(f"ended with statuses {statuses}: {killed.last_line}")
      if num_killed == kills or not any(statuses):
        wrong += runs.differences(reference, workdir)
      if num_killed == kills:
        break
      shutil.rmtree(workdir)
      continue
    num_killed += 1
    start = time.monotonic()
    try:
      status = survivor.wait(PATIENCE)
    except TimeoutError:
      status = None  # it hangs, which does not count as recovered
    seconds = time.monotonic() - start
    longest = max(longest, seconds)
    lost += pair[0].lost_steps
    # The surviving process has to fail with an error message.
    recovered += status not in (0, None) and bool(survivor.output.strip())
    report(
      f"kill {num_killed} of {kills}: process {killed_index}, {moment}, after "
      f"step {runs.last_logged_step(workdir)}; the other process ended with "
      f"status {status} in {seconds:.0f} s"
    )
  notes = (f"the other process ended within {longest:.0f} s", *wrong[:5])
  counts = num_killed, recovered, lost, len(wrong)
  return Outcome("SIGKILL of one of two", *counts, notes)
