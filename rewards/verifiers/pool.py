"""Runs a verifier in worker processes that can be killed.

Text of a policy can make a verifier hang, use up memory or crash. Nothing
inside one process prevents this reliably: sympy swallows the exception of an
alarm, and a thread cannot be killed. Here several workers, each a process of
its own (`rewards.verifiers.worker`), judge items one by one and report each
outcome. If an outcome is late, its worker is killed together with all processes
that it started, and a new worker takes over:

  time-out while computing   the item is wrong
  time-out while waiting     the item is unscored
  death (signal, memory)     the item is tried once more, then unscored
  an exception               the item is unscored
  item cannot be pickled     the item is unscored

A late item counts as computing if it used at least half of its time limit as
processor time, or all that it may use. It is wrong (verdict 0), so that a
policy cannot avoid punishment by answers that are slow to judge. An item that
only waited, for a server or on a busy machine, is unscored. Both have the part
"timeout". An unscored item has verdict -1 with the reason. Wrong items of this
kind and unscored items are logged and counted.

Workers start at the first call, so an unused pool costs nothing. They end with
the pool and with this process. A pool is no sandbox: a worker may do everything
that this process may. A verifier must be importable, so it cannot be defined in
a notebook or in the running script.

Usage:
  verify = Pool(maths.verify, workers=8, timeout=5)
  outcomes = verify(items)
"""

from __future__ import annotations

import collections
import contextlib
import functools
import logging
import math
import os
import pickle
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import connection

from rewards.verifiers import Item, Outcome, unscored
from rewards.verifiers.worker import READY, Worker
from rl import UsageError

_MAX_FAILED_STARTS = 4  # failed starts in a row after which a pool gives up
_TOO_SLOW = Outcome(0.0, 0, "", -1, parts={"timeout": 1.0})
_LOG = logging.getLogger(__name__)


class Pool:
  """A verifier that judges items in worker processes; results keep their order.

  The workers start at the first call or on entering `with`. They end when the
  pool is closed or garbage-collected. Calls from several threads take turns.

  Attributes:
    name: name of the verifier.
    note: note of the verifier, if it has one.
    statistics: counts of items, time-outs, restarts of workers and unscored
      items over all calls.
  """

  def __init__(
    self,
    verify: Callable[[Sequence[Item]], list[Outcome]],
    workers: int = 2,
    timeout: float = 10.0,
    memory: int = 2 << 30,
    batch: int = 32,
    start_timeout: float = 120.0,
  ):
    """Creates the pool without starting a worker.

    Args:
      verify: a function at the top level of a module, or a `functools.partial`
        of one; a lambda cannot be pickled.
      workers: number of processes.
      timeout: wall-clock seconds per item; the CPU time limit is one second
        more. It must be several times what a right answer takes, since an item
        that computes for so long is wrong.
      memory: address space of one worker in bytes.
      batch: largest number of items to send at once.
      start_timeout: seconds for a worker to load the verifier.

    Raises:
      UsageError: a limit is not positive and finite, or the verifier cannot be
        pickled.
    """
    positive = {"workers": workers, "timeout": timeout, "memory": memory}
    positive |= {"batch": batch, "start_timeout": start_timeout}
    for name, value in positive.items():
      if not 0 < value < math.inf:  # NaN is refused too
        raise UsageError(f"{name} is {value!r}; it must be positive and finite")
    if getattr(verify, "__module__", "") == "__main__":
      raise UsageError(
        f"verify is {verify!r} of the running script, which a worker cannot "
        "import; allowed: a function at the top level of a module"
      )
    names = (getattr(verify, n, "") for n in ("__module__", "__qualname__"))
    self.name = ".".join(filter(None, names)) or repr(verify)
    self.note = getattr(verify, "note", "")
    try:
      parcel = pickle.dumps(verify)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
      raise UsageError(
        f"verify is {verify!r}, which cannot be sent to a worker ({error}); "
        "allowed: a function at the top level of a module"
      ) from error
    limits = (memory, timeout + 1)
    self._start = functools.partial(Worker, parcel, limits, start_timeout)
    self._timeout, self._batch = timeout, batch
    self._turn = threading.Lock()
    self.statistics = collections.Counter(
      items=0, timeouts=0, restarts=0, unscored=0
    )
    self._size, self._closed = workers, False
    self._workers: list[Worker] = []
    weakref.finalize(self, _end, self._workers, os.getpid())

  def __call__(self, items: Sequence[Item]) -> list[Outcome]:
    """Returns one outcome per item, in order.

    Raises:
      RuntimeError: the pool is closed, or the workers do not start.
    """
    with self._turn, self._end_on_interrupt():
      self._ready()
      outcomes: dict[int, Outcome] = {}
      deaths = collections.Counter()
      # At least four batches per worker, so that all end at about one time.
      share = -(-len(items) // (4 * len(self._workers)))
      size = max(1, min(self._batch, share))
      waiting = collections.deque(
        list(range(i, min(i + size, len(items))))
        for i in range(0, len(items), size)
      )
      while len(outcomes) < len(items):
        self._attend(items, waiting, outcomes, deaths)
      ordered = [outcomes[i] for i in range(len(items))]
      self._count(ordered)
      return ordered

  def __enter__(self) -> Pool:
    with self._turn, self._end_on_interrupt():
      self._ready()
    return self

  def __exit__(self, *_: object) -> None:
    self.close()

  def close(self) -> None:
    """Kills the workers and waits for their end.

    Afterwards `close` does nothing, and calling the pool raises RuntimeError.
    """
    self._closed = True
    _end(self._workers)

  def _ready(self) -> None:
    """Starts the workers and waits until each has loaded the verifier."""
    if self._closed:
      raise RuntimeError(f"the pool of {self.name} is closed")
    if self._workers:
      return
    self._failed_starts = 0
    for _ in range(self._size):
      self._workers.append(self._start())
    while not all(worker.ready for worker in self._workers):
      self._attend([], collections.deque(), {}, collections.Counter())

  @contextlib.contextmanager
  def _end_on_interrupt(self) -> Iterator[None]:
    """Kills the workers if the block raises; the next call starts new ones."""
    try:
      yield
    except BaseException:
      _end(self._workers)  # their pipes may be read halfway
      raise

  def _count(self, outcomes: Sequence[Outcome]) -> None:
    """Updates the statistics; logs unscored items and slow ones in a line."""
    unknown = [i for i, o in enumerate(outcomes) if o.verdict == -1]
    slow = [i for i, o in enumerate(outcomes) if o is _TOO_SLOW]
    self.statistics.update(items=len(outcomes), unscored=len(unknown))
    if unknown:
      counts = (self.name, len(unknown), len(outcomes), unknown[0])
      reason = outcomes[unknown[0]].reason or "no reason given"
      _LOG.warning("%s: %d of %d items unscored; item %d: %s", *counts, reason)
    if slow:
      counts = (self.name, len(slow), len(outcomes), self._timeout, slow[0])
      _LOG.warning(
        "%s: %d of %d items wrong, because judging them did not end within "
        "%g s; the first is item %d",
        *counts,
      )

  def _attend(self, items, waiting, outcomes, deaths) -> None:
    """Sends work, waits for a message or a deadline, and handles it."""
    for slot, worker in enumerate(self._workers):
      if waiting and worker.ready and not worker.pending:
        work = waiting.popleft()
        try:
          parcel = pickle.dumps([items[i] for i in work])
        except Exception as error:  # an item's __reduce__ may raise anything
          if len(work) > 1:
            waiting.extendleft([i] for i in reversed(work))
          else:
            reason = f"cannot be sent: {type(error).__name__}: {error}"[:200]
            outcomes[work[0]] = unscored(reason)
          continue
        try:
          worker.give(work, parcel, self._timeout)
        except OSError:  # the worker died while it was idle
          waiting.appendleft(work)
          self._bury(slot, waiting, outcomes, deaths)
    busy = {
      worker.connection: slot
      for slot, worker in enumerate(self._workers)
      if worker.pending or not worker.ready
    }
    if not busy:  # no item could be sent
      return
    nearest = min(self._workers[slot].deadline for slot in busy.values())
    news = connection.wait(list(busy), max(0.0, nearest - time.monotonic()))
    for slot in map(busy.get, news):
      worker = self._workers[slot]
      try:
        while worker.connection.poll():
          message = worker.connection.recv()
          if worker.ready:
            i = worker.pending.popleft()
            outcomes[i] = message
          elif message == READY:
            worker.ready, self._failed_starts = True, 0
          else:
            raise RuntimeError(f"no worker can load {self.name}: {message}")
          worker.begin(self._timeout)
      except (EOFError, OSError, pickle.UnpicklingError):
        self._bury(slot, waiting, outcomes, deaths)
    for slot in set(busy.values()) - set(map(busy.get, news)):
      worker = self._workers[slot]
      if time.monotonic() >= worker.deadline:
        self._bury(slot, waiting, outcomes, deaths, late=True)

  def _bury(self, slot, waiting, outcomes, deaths, late=False) -> None:
    """Decides about the items of a late or dead worker, and replaces it."""
    worker = self._workers[slot]
    computed = worker.computed()
    pending, status = worker.pending, worker.kill()
    self._failed_starts += not worker.ready
    if self._failed_starts == _MAX_FAILED_STARTS:
      fate = "too late" if late else f"dead ({status})"
      raise RuntimeError(
        f"workers of {self.name} do not start; the last of "
        f"{_MAX_FAILED_STARTS} is {fate}"
      )
    if pending:
      i = pending.popleft()
      deaths[i] += 1
      is_out_of_processor_time = status == -signal.SIGXCPU
      late = late or is_out_of_processor_time
      self.statistics["timeouts"] += late
      if is_out_of_processor_time or (late and computed >= 0.5 * self._timeout):
        outcomes[i] = _TOO_SLOW
      elif late:
        reason = f"no verdict within {self._timeout:g} s"
        outcomes[i] = Outcome(0.0, -1, "", -1, {"timeout": 1.0}, reason)
      elif deaths[i] > 1:
        outcomes[i] = unscored(f"two workers died of it ({status})")
      else:
        waiting.appendleft([i])
      if pending:
        waiting.append(list(pending))
    self._workers[slot] = self._start()
    self.statistics["restarts"] += 1


def _end(workers: list[Worker], owner: int | None = None) -> None:
  """Kills workers, unless this process is not their `owner`."""
  while workers and owner in (None, os.getpid()):
    workers.pop().kill()
