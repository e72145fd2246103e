"""Verifiers in processes that can be killed.

What a policy writes can make a verifier hang, eat memory or crash, and nothing
inside the process stops that for certain: sympy swallows the exception of an
alarm, and a thread cannot be killed. Here N workers, each a fresh interpreter
in a session of its own, judge items one by one and report each verdict. Whose
verdict is not there in time is killed with all that it started, and a new one
takes over:

  time-out or CPU limit      the item is unscored
  death (signal, memory)     the item is tried once more, then unscored
  an exception               the item is unscored
  it cannot be pickled       the item is unscored

Unscored is verdict -1 with the reason, logged and counted, never a silent 0; a
time-out has the part "timeout" too. With `wrong_if_slow` an item that used at
least half of its time limit as processor time is wrong instead (verdict 0), so
that a policy cannot escape its punishment by an answer that is slow to judge; an
item that waited, on a busy machine, stays unscored. Workers start with the first call, so that a
pool which is never called costs nothing. They see no standard input and end with
the pool and with this process, however it ends: the kernel signals them when the
pipe that it holds is closed. (A child forked from this process holds it too, so
then they end with the last such child.) One that a verifier starts in a further
session has to see to its own end. The limits are those of POSIX (`setrlimit`).
It is no sandbox: a worker may do what this process may. A verifier must be
importable, so none of a notebook or the running script.

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
_STARTS = 4  # that may fail in succession
_LOG = logging.getLogger(__name__)


class Pool:
  """A verifier: calling it judges items in worker processes, in order.

  The workers start when it is first called, or entered with `with`; they end
  when it is closed or forgotten. Calls from several threads take turns.
  `statistics` counts items, timeouts, restarts of workers and unscored items
  over all calls. `note` is the verifier's, if it has one.
  """

  def __init__(
    self,
    verify: Verify,
    workers: int = 2,
    timeout: float = 10.0,
    memory: int = 2 << 30,
    batch: int = 32,
    start_timeout: float = 120.0,
    wrong_if_slow: bool = False,
  ):
    """Starts nothing yet.

    Args:
      verify: a function that a module defines (a lambda cannot be sent), or a
        `functools.partial` of one.
      workers: number of processes.
      timeout: seconds that one item may take, by the clock; of CPU time it may
        take a second more.
      memory: bytes of address space of one worker.
      batch: items sent at once, at most.
      start_timeout: seconds that a worker may take to load the verifier.
      wrong_if_slow: whether an item that the verifier computes over until the
        time-out is wrong, and not unscored. This is right for a verifier that
        only a bad answer can make slow.

    Raises:
      ValueError: a limit that is not positive and finite, or a verifier that
        cannot be sent to another process.
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
    self._batch, self._wrong_if_slow = batch, wrong_if_slow
    self._turn = threading.Lock()
    self.statistics = collections.Counter(
      items=0, timeouts=0, restarts=0, unscored=0
    )
    self._failed_starts = 0
    self._size, self._closed = workers, False
    self._workers: list[_Worker] = []
    weakref.finalize(self, _end, self._workers, os.getpid())

  def __call__(self, items: Sequence[Item]) -> list[Outcome]:
    """One outcome per item, in order; never raises over what an item says.

    Raises:
      RuntimeError: the pool is closed, or workers do not start.
    """
    with self._turn:
      self._ready()
      outcomes: dict[int, Outcome] = {}
      deaths = collections.Counter()
      share = -(-len(items) // (4 * len(self._workers)))
      size = max(1, min(self._batch, share))
      waiting = collections.deque(
        list(range(i, min(i + size, len(items))))
        for i in range(0, len(items), size)
      )
      with self._whole():
        while len(outcomes) < len(items):
          self._attend(items, waiting, outcomes, deaths)
      found = [outcomes[i] for i in range(len(items))]
      self._count(found)
      return found

  def __enter__(self) -> Pool:
    with self._turn:
      self._ready()
    return self

  def __exit__(self, *_: object) -> None:
    self.close()

  def close(self) -> None:
    """Kills the workers and waits for their end. May be called twice."""
    self._closed = True
    _end(self._workers)

  def _ready(self) -> None:
    """Starts the workers, and waits until each has loaded the verifier."""
    if self._closed:
      raise RuntimeError(f"the pool of {self.name} is closed")
    if self._workers:
      return
    self._failed_starts = 0
    with self._whole():
      for _ in range(self._size):
        self._workers.append(self._start())
      while any(not worker.ready for worker in self._workers):
        self._attend([], collections.deque(), {}, collections.Counter())

  @contextlib.contextmanager
  def _whole(self) -> Iterator[None]:
    """An interrupt leaves half-read pipes: the next call starts anew."""
    try:
      yield
    except BaseException:
      _end(self._workers)
      raise

  def _count(self, outcomes: Sequence[Outcome]) -> None:
    """Adds to the statistics, and says in one line what is unscored."""
    unknown = [i for i, o in enumerate(outcomes) if o.verdict == -1]
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

  def _start(self) -> _Worker:
    return _Worker(self._verify, self._limits, self._start_timeout)

  def _attend(self, items, waiting, outcomes, deaths) -> None:
    """Hands out work, waits for news or a deadline, and acts on it."""
    for slot, worker in enumerate(self._workers):
      if waiting and worker.ready and not worker.pending:
        work = waiting.popleft()
        try:
          parcel = pickle.dumps([items[i] for i in work])
        except Exception as error:  # of any kind: an item may pickle itself
          if len(work) > 1:
            waiting.extendleft([i] for i in reversed(work))
          else:
            reason = f"cannot be sent: {type(error).__name__}: {error}"[:200]
            outcomes[work[0]] = unscored(reason)
          continue
        try:
          worker.give(work, parcel, self._timeout)
        except OSError:  # it died idle: nobody's fault
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
    """A worker is late or dead: decides about its items and replaces it."""
    worker = self._workers[slot]
    computed = worker.computed()
    pending, status = worker.pending, worker.kill()
    self._failed_starts += not worker.ready
    if self._failed_starts == _STARTS:
      fate = "too late" if late else f"dead ({status})"
      raise RuntimeError(
        f"workers of {self.name} do not start; the last of {_STARTS} is {fate}"
      )
    if pending:
      i = pending.popleft()
      deaths[i] += 1
      is_out_of_processor_time = status == -signal.SIGXCPU
      late = late or is_out_of_processor_time
      self.statistics["timeouts"] += late
      is_slow = is_out_of_processor_time or computed >= 0.5 * self._timeout
      if late and is_slow and self._wrong_if_slow:
        outcomes[i] = Outcome(0.0, 0, "", -1, {"timeout": 1.0})
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
  """A process, the way to talk to it, and what it has not answered yet."""

  def __init__(self, verify: bytes, limits: tuple, start_timeout: float):
    self.connection, theirs = connection.Pipe()
    # Closed by the kernel when this process ends, and only then: see `_work`.
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
    with contextlib.suppress(OSError):  # dead, as the first wait will say
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
    """Seconds of processor time since `begin`, of all threads of the worker."""
    return self._processor_seconds() - self._used_before

  def _processor_seconds(self) -> float:
    """Reads Linux's counter; without one, the time by the clock."""
    try:
      with open(f"/proc/{self._process.pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    except OSError:
      return time.monotonic()
    # utime and stime, fields 14 and 15 of proc(5); the first here is field 3.
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

  def kill(self) -> int:
    """Ends it and what it started; its exit status, as of subprocess."""
    if self._lifeline is not None:
      with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(self._process.pid, signal.SIGKILL)
      self._process.wait()
      self.connection.close()
      os.close(self._lifeline)
      self._lifeline = None
    return self._process.returncode


def _end(workers: list[_Worker], owner: int | None = None) -> None:
  """Kills workers; those of another process than `owner` are left alone."""
  while workers and owner in (None, os.getpid()):
    workers.pop().kill()


def _check(outcome: Outcome) -> None:
  """Raises over what the arrays of a rollout could not hold."""
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
  """What a worker does: loads the verifier, then judges until it is killed."""
  import fcntl  # POSIX only, as is `resource`
  import resource
  import select

  # SIGIO, which ends a process, to all of this session when the pool's process
  # is gone, even while C code runs.
  fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpid())
  flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
  fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC)
  if select.select([lifeline], [], [], 0)[0]:  # it was gone before
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
      wanted = int(used.ru_utime + used.ru_stime + seconds) + 1
      allowed = _allowed(resource.RLIMIT_CPU, wanted)
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


def _allowed(kind: int, wanted: int) -> int:
  """A limit, or the hard one that this process was born with, if smaller."""
  import resource

  hard = resource.getrlimit(kind)[1]
  return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
