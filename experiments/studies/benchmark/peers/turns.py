"""Runs one iteration at a time of a trainer that has a training loop.

turns = Turns(train)         # starts `train(turns)` in a thread
counts = turns.take(3)       # runs iteration number 3 and waits for its counts

def train(turns):            # the trainer, with these calls in its hooks
  number = turns.begin()     # blocks until an iteration is requested
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
  """Runs iterations of a trainer, which waits in its thread between them."""

  def __init__(self, train: Callable[[Turns], None]) -> None:
    """Starts the trainer in a thread, where it waits in `begin`."""
    self._requests: queue.Queue[int] = queue.Queue()
    self._results: queue.Queue[Counts | BaseException] = queue.Queue()
    self._thread = threading.Thread(
      target=self._run, args=(train,), daemon=True
    )
    self._thread.start()

  def take(self, number: int) -> Counts:
    """Runs one iteration.

    Args:
      number: number that `begin` returns in the trainer.

    Returns:
      The counts that the trainer passed to `end`.

    Raises:
      RuntimeError: the trainer has ended or failed, now or earlier.
    """
    self._requests.put(number)
    result = self._results.get()
    if isinstance(result, BaseException):
      self._results.put(result)  # A later call raises it again.
      raise RuntimeError(f"the trainer failed: {result!r}") from result
    return result

  def begin(self) -> int:
    """Waits for the next request and returns its number."""
    return self._requests.get()

  def end(self, counts: Counts) -> None:
    """Reports that the iteration is finished."""
    self._results.put(counts)

  def _run(self, train: Callable[[Turns], None]) -> None:
    try:
      train(self)
      self._results.put(RuntimeError("it ended without being stopped"))
    except BaseException as error:  # `take` raises it.
      self._results.put(error)
