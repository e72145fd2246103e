"""SIGKILL at random moments, of a run's only process and of one of two."""

from __future__ import annotations

import collections
import pathlib
import random
import shutil
import socket
import time
from collections.abc import Callable

from experiments.configs import faults as config
from experiments.studies.faults import runs
from experiments.studies.faults.outcome import Outcome, Tell

MOMENTS = ("step", "checkpoint", "evaluation", "start")
# Of several processes, once all have met: who is late to start is waited for.
JOINED = ("step", "checkpoint", "evaluation")
PATIENCE = 60.0  # seconds that a process may outlive the other


def alone(
  kills: int, reference: pathlib.Path, draw: random.Random, tell: Tell
) -> Outcome:
  """One process, killed while it starts, steps, saves and evaluates.

  A run that reaches its end before all kills were made is followed by another.

  Args:
    kills: how often.
    reference: workdir of the undisturbed run.
    draw: of the moments.
    tell: where progress goes.
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
      moment = draw.choice(MOMENTS)
      struck = counts.total() < kills and strike(run, moment, draw)
      status = None if struck else run.wait()
      recovered += was_killed and not status
      if not struck:
        break
      counts[moment] += 1
      lost += run.lost_steps
      was_killed = True
      tell(
        f"kill {counts.total()} of {kills}: {moment}, after step "
        f"{runs.logged(workdir)}"
      )
    if status:
      wrong.append(f"ended with {status}: {run.last_line}")
    wrong += runs.differences(reference, workdir)
    shutil.rmtree(workdir)
  told = ", ".join(f"{counts[moment]} {moment}" for moment in MOMENTS)
  return Outcome(
    "SIGKILL",
    counts.total(),
    recovered,
    lost,
    len(wrong),
    (f"moments: {told}", *wrong[:5]),
  )


def strike(run: runs.Run, moment: str, draw: random.Random) -> bool:
  """Kills a run at such a moment; False where it ended before."""
  if moment == "start":
    time.sleep(draw.uniform(0.0, 8.0))
  else:
    if not run.until(_due(run, moment, draw)):
      return False
    time.sleep(draw.uniform(0.0, 0.05))
  if not run.is_running:
    return False
  run.kill()
  return True


def _due(run: runs.Run, moment: str, draw: random.Random) -> Callable[[], bool]:
  """Whether the moment has come, as far as files tell, in this very process."""
  workdir = run.workdir
  if moment == "checkpoint":
    before = set((workdir / "checkpoints").glob("*tmp*"))
    return lambda: bool(set((workdir / "checkpoints").glob("*tmp*")) - before)
  if moment == "evaluation":
    return lambda: run.resumed_at is not None and _evaluates(workdir)
  seen, more = [], draw.randint(1, 25)

  def stepped() -> bool:
    now = runs.logged(workdir)
    if not seen or seen[-1] != now:
      seen.append(now)
    return len(seen) > more

  return stepped


def _evaluates(workdir: pathlib.Path) -> bool:
  """Whether held-out problems are being sampled."""
  done = runs.logged(workdir)
  asked = config.get_config()
  name = f"evaluation_{done:06d}.json"
  if done in (0, asked.steps):
    name = "evaluation.json" if done else "evaluation_base.json"
  elif done % asked.evaluate_every:
    return False
  return not (workdir / name).exists()


class Pair:
  """Two processes that run one experiment together."""

  def __init__(self, workdir: pathlib.Path) -> None:
    with socket.socket() as free:
      free.bind(("localhost", 0))
      port = free.getsockname()[1]
    words = (f"--coordinator=localhost:{port}", "--processes=2")
    self.both = [
      runs.Run(
        workdir,
        (*words, f"--process={i}"),
        workdir.parent / f"{workdir.name}_{i}.log",
      )
      for i in range(2)
    ]

  def wait(self) -> list[int]:
    return [one.wait() for one in self.both]


def one_of_two(
  kills: int, folder: pathlib.Path, draw: random.Random, tell: Tell
) -> Outcome:
  """Either of two processes, at random moments.

  The other has to end within `PATIENCE` and to say why; then both are started
  again.

  Args:
    kills: how often.
    folder: for the runs, the undisturbed one too.
    draw: of the moments and of the process.
    tell: where progress goes.
  """
  reference, workdir = folder / "two", folder / "two_killed"
  tell("two processes: the undisturbed run")
  statuses = Pair(reference).wait()
  if any(statuses):
    raise RuntimeError(f"the undisturbed processes ended with {statuses}")
  done = recovered = lost = 0
  longest = 0.0
  wrong: list[str] = []
  while True:
    pair = Pair(workdir)
    victim = draw.randrange(2)
    moment = draw.choice(JOINED)
    run, other = pair.both[victim], pair.both[1 - victim]
    if done == kills or not strike(run, moment, draw):
      if any(statuses := pair.wait()):
        wrong.append(f"ended with {statuses}: {run.last_line}")
      if done == kills or not any(statuses):
        wrong += runs.differences(reference, workdir)
      if done == kills:
        break
      shutil.rmtree(workdir)
      continue
    done += 1
    begun = time.monotonic()
    try:
      status = other.wait(PATIENCE)
    except TimeoutError:
      status = None  # the survivor hangs: it has not recovered
    took = time.monotonic() - begun
    longest = max(longest, took)
    lost += pair.both[0].lost_steps
    recovered += status not in (0, None) and bool(other.said.strip())
    tell(
      f"kill {done} of {kills}: process {victim}, {moment}, after step "
      f"{runs.logged(workdir)}; the other ended with {status} in {took:.0f} s"
    )
  return Outcome(
    "SIGKILL of one of two",
    done,
    recovered,
    lost,
    len(wrong),
    (f"the other ended after {longest:.0f} s at most", *wrong[:5]),
  )
