"""Runs a verifier in worker processes that can be killed.

Text of a policy can make a verifier hang, use up memory or crash. Nothing
inside one process prevents this reliably: sympy swallows the exception of an
alarm, and a thread cannot be killed. Here several workers, each a fresh
interpreter in its own session, judge items one by one and report each outcome.
If an outcome is late, its worker is killed together with all processes that it
started, and a new worker takes over:

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

Workers start at the first call, so an unused pool costs nothing. They have no
standard input. They end with the pool and with this process, however it ends:
this process holds a pipe, and the kernel signals the workers when the pipe is
closed. (A child forked from this process holds the pipe too, so the workers end
with the last such child.) A process that a verifier starts in a new session
must end by itself. The limits are those of POSIX (`setrlimit`). A pool is no
sandbox: a worker may do everything that this process may. A verifier must be
importable, so it cannot be defined in a notebook or in the running script.

Usage:
  verify = Pool(maths.verify, workers=8, timeout=5)
  outcomes = verify(items)
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import logging
import math
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import connection

from rewards.verifiers import Item, Outcome, unscored

Verify = Callable[[Sequence[Item]], list[Outcome]]
_START = (
  "import sys; sys.path[:] = {path}; from rewards.verifiers import pool; "
)
_READY = "ready"
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
    verify: Verify,
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
      ValueError: a limit is not positive and finite, or the verifier cannot be
        pickled.
    """
    for name, value in (
      ("workers", workers),
      ("timeout", timeout),
      ("memory", memory),
      ("batch", batch),
      ("start_timeout", start_timeout),
    ):
      if not 0 < value < math.inf:  # NaN is refused too
        raise ValueError(f"{name} is {value!r}; it must be positive and finite")
    if getattr(verify, "__module__", "") == "__main__":
      raise ValueError(
        f"verify is {verify!r} of the running script, which a worker cannot "
        "import; allowed: a function at the top level of a module"
      )
    names = (getattr(verify, n, "") for n in ("__module__", "__qualname__"))
    self.name = ".".join(filter(None, names)) or repr(verify)
    self.note = getattr(verify, "note", "")
    try:
      self._verify = pickle.dumps(verify)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
      raise ValueError(
        f"verify is {verify!r}, which cannot be sent to a worker ({error}); "
        "allowed: a function at the top level of a module"
      ) from error
    self._limits = (memory, timeout + 1)
    self._timeout, self._start_timeout = timeout, start_timeout
    self._batch = batch
    self._turn = threading.Lock()
    self.statistics = collections.Counter(
      items=0, timeouts=0, restarts=0, unscored=0
    )
    self._size, self._closed = workers, False
    self._workers: list[_Worker] = []
    weakref.finalize(self, _end, self._workers, os.getpid())

  def __call__(self, items: Sequence[Item]) -> list[Outcome]:
    """Returns one outcome per item, in order.

    Raises:
      RuntimeError: the pool is closed, or the workers do not start.
    """
    with self._turn:
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
      with self._end_on_interrupt():
        while len(outcomes) < len(items):
          self._attend(items, waiting, outcomes, deaths)
      ordered = [outcomes[i] for i in range(len(items))]
      self._count(ordered)
      return ordered

  def __enter__(self) -> Pool:
    with self._turn:
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
    with self._end_on_interrupt():
      for _ in range(self._size):
        self._workers.append(self._start())
      while any(not worker.ready for worker in self._workers):
        self._attend([], collections.deque(), {}, collections.Counter())

  @contextlib.contextmanager
  def _end_on_interrupt(self) -> Iterator[None]:
    """Kills the workers if the block raises, which may leave half-read pipes.

    The next call of the pool starts new workers.
    """
    try:
      yield
    except BaseException:
      _end(self._workers)
      raise

  def _count(self, outcomes: Sequence[Outcome]) -> None:
    """Updates the statistics; logs unscored items and slow ones in a line."""
    unknown = [i for i, o in enumerate(outcomes) if o.verdict == -1]
    slow = [i for i, o in enumerate(outcomes) if o is _TOO_SLOW]
    self.statistics["items"] += len(outcomes)
    self.statistics["unscored"] += len(unknown)
    if unknown:
      _LOG.warning(
        "%s: %d of %d items unscored; item %d: %s",
        self.name,
        len(unknown),
        len(outcomes),
        unknown[0],
        outcomes[unknown[0]].reason or "no reason given",
      )
    if slow:
      _LOG.warning(
        "%s: %d of %d items wrong, because judging them did not end within "
        "%g s; the first is item %d",
        self.name,
        len(slow),
        len(outcomes),
        self._timeout,
        slow[0],
      )

  def _start(self) -> _Worker:
    return _Worker(self._verify, self._limits, self._start_timeout)

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
          self._restart(slot)
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
          elif message == _READY:
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
        outcomes[i] = dataclasses.replace(
          unscored(f"no verdict within {self._timeout:g} s"),
          parts={"timeout": 1.0},
        )
      elif deaths[i] > 1:
        outcomes[i] = unscored(f"two workers died of it ({status})")
      else:
        waiting.appendleft([i])
      if pending:
        waiting.append(list(pending))
    self._restart(slot)

  def _restart(self, slot: int) -> None:
    self._workers[slot].kill()
    self._workers[slot] = self._start()
    self.statistics["restarts"] += 1


class _Worker:
  """A process, its connection, and the items that it has not answered yet."""

  def __init__(self, verify: bytes, limits: tuple, start_timeout: float):
    self.connection, theirs = connection.Pipe()
    # The kernel closes it when this process ends; see `_work`.
    reader, self._lifeline = os.pipe()
    path = [entry or os.getcwd() for entry in sys.path]
    call = f"pool._work({theirs.fileno()}, {reader})"
    try:
      self._process = subprocess.Popen(
        [sys.executable, "-c", _START.format(path=path) + call],
        stdin=subprocess.DEVNULL,
        pass_fds=(theirs.fileno(), reader),
        start_new_session=True,
      )
    except BaseException:
      self.connection.close()
      os.close(self._lifeline)
      raise
    finally:
      theirs.close()
      os.close(reader)
    self.ready = False
    self.pending: collections.deque[int] = collections.deque()
    self.begin(start_timeout)
    with contextlib.suppress(OSError):  # a dead worker shows at the first wait
      self.connection.send((verify, *limits))

  def give(self, indices: list[int], parcel: bytes, timeout: float) -> None:
    self.connection.send_bytes(parcel)
    self.pending.extend(indices)
    self.begin(timeout)

  def begin(self, timeout: float) -> None:
    """Starts the clocks of the next item."""
    self.deadline = time.monotonic() + timeout
    self._used_before = self._processor_seconds()

  def computed(self) -> float:
    """Processor seconds of all threads of the worker since `begin`."""
    return self._processor_seconds() - self._used_before

  def _processor_seconds(self) -> float:
    """Processor seconds from Linux's counter; elsewhere wall-clock seconds."""
    try:
      with open(f"/proc/{self._process.pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    except OSError:
      return time.monotonic()
    # utime and stime are fields 14 and 15 of proc(5); `fields` starts at 3.
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

  def kill(self) -> int:
    """Kills the worker's process group; returns its exit status."""
    if self._lifeline is not None:
      with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(self._process.pid, signal.SIGKILL)
      self._process.wait()
      self.connection.close()
      os.close(self._lifeline)
      self._lifeline = None
    return self._process.returncode


def _end(workers: list[_Worker], owner: int | None = None) -> None:
  """Kills workers, unless this process is not their `owner`."""
  while workers and owner in (None, os.getpid()):
    workers.pop().kill()


def _check(outcome: Outcome) -> None:
  """Raises ValueError if the arrays of a rollout could not hold the outcome."""
  if not 0 <= outcome.score <= 1:  # NaN is refused too
    raise ValueError(f"a score of {outcome.score}, not in [0, 1]")
  if outcome.verdict not in (-1, 0, 1):
    raise ValueError(f"a verdict of {outcome.verdict}, not -1, 0 or 1")
  if not -1 <= outcome.answer_id < 2**31:
    raise ValueError(f"an answer_id of {outcome.answer_id}, not -1 or an int32")
  for name, value in outcome.parts.items():
    if not math.isfinite(value):
      raise ValueError(f"a part {name!r} of {value}, which is not finite")


def _work(channel: int, lifeline: int) -> None:
  """The main function of a worker: loads the verifier and judges items."""
  import fcntl  # POSIX only, as is `resource`
  import resource
  import select

  # When the pool's process ends, SIGIO ends all processes of this session, even
  # while C code runs.
  fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpid())
  flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
  fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC)
  if select.select([lifeline], [], [], 0)[0]:  # the pool has already ended
    return
  parent = connection.Connection(channel)
  verify, memory, seconds = parent.recv()
  resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
  memory = _allowed(resource.RLIMIT_AS, memory)
  resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
  try:
    verify = pickle.loads(verify)
  except Exception as error:
    parent.send(f"{type(error).__name__}: {error}")
    return
  parent.send(_READY)
  while True:
    try:
      items = parent.recv()
    except EOFError:
      return
    for item in items:
      used = resource.getrusage(resource.RUSAGE_SELF)
      requested = int(used.ru_utime + used.ru_stime + seconds) + 1
      allowed = _allowed(resource.RLIMIT_CPU, requested)
      hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
      resource.setrlimit(resource.RLIMIT_CPU, (allowed, hard))
      try:
        (outcome,) = verify([item])
        if not isinstance(outcome, Outcome):
          raise TypeError(f"{type(outcome).__name__} instead of an Outcome")
        _check(outcome)
      except Exception as error:
        outcome = unscored(f"{type(error).__name__}: {error}"[:200])
      parent.send(outcome)


def _allowed(kind: int, requested: int) -> int:
  """Returns the smaller of the request and this process's hard limit."""
  import resource  # POSIX only; Windows can still import this module

  hard = resource.getrlimit(kind)[1]
  return requested if hard == resource.RLIM_INFINITY else min(requested, hard)
