"""A worker of the verifiers' pool is killed every second."""

from __future__ import annotations

import os
import pathlib
import random
import signal
import threading
from collections.abc import Sequence

from experiments.studies.faults.outcome import Outcome, Tell
from rewards import verifiers
from rewards.verifiers import Item, maths, pool

EVERY = 1.0  # seconds
ITEMS = 4000


def killed(times: int, draw: random.Random, tell: Tell) -> Outcome:
  """Verdicts on answers, with and without; items are retried.

  Args:
    times: how many workers are killed.
    draw: of the answers, and of the worker.
    tell: where progress goes.
  """
  items = questions(draw)
  others = children()
  with pool.Pool(maths.verify, workers=2) as undisturbed:
    expected = undisturbed(items)
  with pool.Pool(maths.verify, workers=2) as disturbed:
    killer = Killer(draw, others)
    rounds = wrong = 0
    with killer:
      while killer.done < times:
        found = disturbed(items)
        rounds += 1
        wrong += sum(map(_differs, expected, found))
        tell(f"{killer.done} workers killed in {rounds} rounds")
    restarts = disturbed.statistics["restarts"]
  return Outcome(
    "verifier worker killed",
    killer.done,
    killer.done if restarts >= killer.done - 1 else restarts,
    0,
    wrong,
    (f"{rounds} x {len(items)} verdicts, {restarts} workers started anew",),
  )


def _differs(one: verifiers.Outcome, other: verifiers.Outcome) -> bool:
  return one != other


def questions(draw: random.Random) -> list[Item]:
  """Sums with a right answer, a wrong one, one in another form, or none."""
  found = []
  for _ in range(ITEMS):
    a, b = draw.randint(1, 99), draw.randint(2, 99)
    said = draw.choice(
      [f"{a}/{b}", f"{a + 1}/{b}", f"\\frac{{{2 * a}}}{{{2 * b}}}", "none"]
    )
    found.append(
      Item(
        prompt=f"What is {a} over {b}?",
        completion=f"It is \\boxed{{{said}}}.",
        reference=f"\\frac{{{a}}}{{{b}}}",
      )
    )
  return found


class Killer:
  """Kills one of this process's children every second while it is open.

  Args:
    draw: of the child.
    spared: those that are left alone.

  Attributes:
    done: how many.
  """

  def __init__(self, draw: random.Random, spared: Sequence[int]) -> None:
    self._draw, self._spared = draw, set(spared)
    self._over = threading.Event()
    self._thread = threading.Thread(target=self._kill, daemon=True)
    self.done = 0

  def __enter__(self) -> Killer:
    self._thread.start()
    return self

  def __exit__(self, *_: object) -> None:
    self._over.set()
    self._thread.join()

  def _kill(self) -> None:
    while not self._over.wait(EVERY):
      there = [one for one in children() if one not in self._spared]
      if there:
        os.kill(self._draw.choice(there), signal.SIGKILL)
        self.done += 1


def children() -> Sequence[int]:
  """Processes that this one started."""
  return [
    int(number)
    for path in pathlib.Path("/proc/self/task").glob("*/children")
    for number in path.read_text().split()
  ]
