"""A trainer that owns its loop, one iteration when it is told.

turns = Turns(train)         # starts `train(turns)` in a thread
counts = turns.take(3)       # iteration number 3, in the caller's thread

def train(turns):            # what a trainer's hooks do
  number = turns.begin()     # blocks until an iteration is asked for
  ...
  turns.end({"tokens": 512}) # all work of the iteration is finished
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any

Counts = Mapping[str, Any]


class Turns:
  """Hands iterations to a thread and waits for what came out."""

  def __init__(self, train: Callable[[Turns], None]) -> None:
    """Starts the trainer, which should wait in `begin` soon."""
    self._asked: queue.Queue[int] = queue.Queue()
    self._told: queue.Queue[Counts | BaseException] = queue.Queue()
    self._thread = threading.Thread(
      target=self._run, args=(train,), daemon=True
    )
    self._thread.start()

  def take(self, number: int) -> Counts:
    """One iteration.

    Args:
      number: told to the trainer.

    Returns:
      What `end` was given.

    Raises:
      RuntimeError: the trainer ended or failed, also before.
    """
    self._asked.put(number)
    told = self._told.get()
    if isinstance(told, BaseException):
      self._told.put(told)  # the next caller finds it too
      raise RuntimeError(f"the trainer failed: {told!r}") from told
    return told

  def begin(self) -> int:
    """Waits for the next iteration and says its number."""
    return self._asked.get()

  def end(self, counts: Counts) -> None:
    """The iteration is finished."""
    self._told.put(counts)

  def _run(self, train: Callable[[Turns], None]) -> None:
    try:
      train(self)
      self._told.put(RuntimeError("it ended by itself"))
    except BaseException as error:  # told to whoever waits
      self._told.put(error)
