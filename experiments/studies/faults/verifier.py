"""Kills worker processes of a verifier pool, and compares the verdicts."""

from __future__ import annotations

import operator
import os
import pathlib
import random
import signal
import threading
from collections.abc import Sequence

from experiments.studies.faults.outcome import Outcome, Report
from rewards.verifiers import Item, maths, pool

INTERVAL = 1.0  # seconds between two kills
ITEMS = 4000  # number of items that are judged in a round


def kill_workers(times: int, rng: random.Random, report: Report) -> Outcome:
  """Kills workers of a pool, and compares its verdicts with another pool's.

  The pool starts a killed worker again and repeats its items, so both pools
  must return the same verdicts. The items are judged in rounds until enough
  workers were killed.

  Args:
    times: least number of workers to kill.
    rng: random generator that picks the answers and the workers to kill.
    report: function that prints a line of progress.
  """
  items = make_items(rng)
  spared = child_processes()
  with pool.Pool(maths.verify, workers=2) as undisturbed:
    expected = undisturbed(items)
  with pool.Pool(maths.verify, workers=2) as disturbed:
    killer = Killer(rng, spared)
    rounds = wrong = 0
    with killer:
      while killer.num_kills < times:
        verdicts = disturbed(items)
        rounds += 1
        wrong += sum(map(operator.ne, expected, verdicts))
        report(f"{killer.num_kills} workers killed in {rounds} rounds")
    restarts = disturbed.statistics["restarts"]
  kills = killer.num_kills
  return Outcome(
    fault="verifier worker killed",
    times=kills,
    # The pool may close before it starts the last killed worker again.
    recovered=kills if restarts >= kills - 1 else restarts,
    silent_differences=wrong,
    notes=(
      f"{rounds} x {len(items)} verdicts, {restarts} workers started again",
    ),
  )


def make_items(rng: random.Random) -> list[Item]:
  """Makes questions with right, wrong, unreduced and missing answers."""
  items = []
  for _ in range(ITEMS):
    a, b = rng.randint(1, 99), rng.randint(2, 99)
    answer = rng.choice(
      [f"{a}/{b}", f"{a + 1}/{b}", f"\\frac{{{2 * a}}}{{{2 * b}}}", "none"]
    )
    items.append(
      Item(
        prompt=f"What is {a} over {b}?",
        completion=f"It is \\boxed{{{answer}}}.",
        reference=f"\\frac{{{a}}}{{{b}}}",
      )
    )
  return items


class Killer:
  """Context manager that kills a child of this process every second.

  Args:
    rng: random generator that picks the process to kill.
    spared: process ids of children that are never killed.

  Attributes:
    num_kills: number of killed processes.
  """

  def __init__(self, rng: random.Random, spared: Sequence[int]) -> None:
    self._rng, self._spared = rng, set(spared)
    self._stop = threading.Event()
    self._thread = threading.Thread(target=self._kill, daemon=True)
    self.num_kills = 0

  def __enter__(self) -> Killer:
    self._thread.start()
    return self

  def __exit__(self, *_: object) -> None:
    self._stop.set()
    self._thread.join()

  def _kill(self) -> None:
    while not self._stop.wait(INTERVAL):
      pids = [pid for pid in child_processes() if pid not in self._spared]
      if pids:
        os.kill(self._rng.choice(pids), signal.SIGKILL)
        self.num_kills += 1


def child_processes() -> Sequence[int]:
  """Returns the process ids of the children of this process."""
  return [
    int(pid)
    for path in pathlib.Path("/proc/self/task").glob("*/children")
    for pid in path.read_text().split()
  ]
