"""A worker: a process that judges items, has limits, and can be killed.

`rewards.verifiers.pool` starts a worker as a fresh interpreter in a session of
its own, without standard input. It loads the verifier and answers each item
with an outcome. It ends with the pool's process, however that one ends: this
process holds a pipe, the lifeline, and the kernel signals the worker when it is
closed. (A child forked from this process holds the pipe too, so the worker ends
with the last such child.) A process that a verifier starts in a new session
must end by itself. The limits are those of POSIX (`setrlimit`).
"""

from __future__ import annotations

import collections
import contextlib
import math
import os
import pickle
import signal
import subprocess
import sys
import time
from multiprocessing import connection

from rewards.verifiers import Outcome, unscored_error
from rl import UsageError

READY = "ready"  # message of a worker that has loaded the verifier


class Worker:
  """A process, its connection, and the items that it has not answered yet."""

  def __init__(
    self, verify: bytes, limits: tuple[int, float], start_timeout: float
  ):
    """Starts the process; `limits` are its bytes and seconds of an item."""
    self.connection, theirs = connection.Pipe()
    # The kernel closes it when this process ends; see `work`.
    reader, self._lifeline = os.pipe()
    path = [entry or os.getcwd() for entry in sys.path]
    code = (
      f"import sys; sys.path[:] = {path}; "
      "from rewards.verifiers import worker; "
      f"worker.work({theirs.fileno()}, {reader})"
    )
    try:
      self._process = subprocess.Popen(
        [sys.executable, "-c", code],
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
    """Sends pickled items, whose outcomes the worker will report in order."""
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


def _check(outcome: Outcome) -> None:
  """Raises UsageError if the arrays of a rollout could not hold the outcome."""
  if not 0 <= outcome.score <= 1:  # NaN is refused too
    raise UsageError(f"a score of {outcome.score}, not in [0, 1]")
  if outcome.verdict not in (-1, 0, 1):
    raise UsageError(f"a verdict of {outcome.verdict}, not -1, 0 or 1")
  if not -1 <= outcome.answer_id < 2**31:
    raise UsageError(f"an answer_id of {outcome.answer_id}, not -1 or an int32")
  for name, value in outcome.parts.items():
    if not math.isfinite(value):
      raise UsageError(f"a part {name!r} of {value}, which is not finite")


def work(channel: int, lifeline: int) -> None:
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
  parent.send(READY)
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
        outcome = unscored_error(error, verify)
      parent.send(outcome)


def _allowed(kind: int, requested: int) -> int:
  """Returns the smaller of the request and this process's hard limit."""
  import resource  # POSIX only; Windows can still import this module

  hard = resource.getrlimit(kind)[1]
  return requested if hard == resource.RLIM_INFINITY else min(requested, hard)
