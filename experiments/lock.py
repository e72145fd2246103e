"""A lock that keeps two runs out of one workdir.

The run that holds a workdir writes `run.lock` into it, which names its host and
process, and rewrites the file every few seconds with a counter. The file is
removed when the run ends.

A run that finds the file decides whether its holder still lives:

  the same machine      The holder lives if its process does. The start time of
                        the process guards against a reused process id.
  the same machine      The holder is dead.
  before a reboot
  another machine       The processes there cannot be seen, so the counter is
                        watched: the holder lives if the counter changes.

The lock of a dead holder is taken over. Clocks of different machines are not
compared. So a preempted run restarts by itself, at the latest after
`WATCH_SECONDS`, also where its new machine has another name.

Locks work in buckets too. There, as in a takeover, creating the file is not
exclusive, and a holder reads it back to see whether another run was faster.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import pathlib
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import jax
from etils import epath

from experiments import hosts, jsonl, mistakes
from models import buckets

LOCK_FILE = "run.lock"
BEAT_SECONDS = 15.0  # from one rewrite of the file to the next
WATCH_SECONDS = 90.0  # without a change, after which a holder is dead
SETTLE_SECONDS = 0.5  # in which two runs that start at once see each other

Record = dict[str, Any]


@contextlib.contextmanager
def hold(workdir: epath.PathLike) -> Iterator[None]:
  """Holds a workdir for one run, which may have several processes.

  Process 0 takes the lock; the other processes wait for its result.

  Args:
    workdir: folder of the run; it must exist.

  Raises:
    Mistake: if another run holds the workdir.
  """
  lock = Lock(workdir)
  refusal: mistakes.Mistake | None = None
  if jax.process_index() == 0:
    try:
      lock.take()
    except mistakes.Mistake as error:
      refusal = error
  if jax.process_count() > 1 and hosts.agreed(refusal is not None):
    refusal = refusal or mistakes.Mistake(f"{workdir} is in use by another run")
  if refusal is not None:
    raise refusal
  try:
    yield
  finally:
    lock.release()


class Lock:
  """The lock of one workdir.

  Args:
    workdir: folder of the run.
    beat_seconds: time from one rewrite of the file to the next.
    watch_seconds: time for which the file of another machine is watched.
  """

  def __init__(
    self,
    workdir: epath.PathLike,
    beat_seconds: float = BEAT_SECONDS,
    watch_seconds: float = WATCH_SECONDS,
  ) -> None:
    self._workdir = epath.Path(workdir)
    self._path = self._workdir / LOCK_FILE
    self._beat_seconds = beat_seconds
    self._watch_seconds = watch_seconds
    self._record: Record = {}
    self._stop = threading.Event()
    self._thread: threading.Thread | None = None

  def take(self) -> None:
    """Takes the lock, and rewrites its file in a thread from then on.

    Raises:
      Mistake: if another run holds it.
    """
    self._record = {
      **_this_process(),
      "since": datetime.datetime.now().astimezone().isoformat(" ", "seconds"),
      "token": uuid.uuid4().hex,
      "beat": 0,
    }
    if not self._create():
      holder = self._read()
      if holder is not None:
        if self._lives(holder):
          raise self._refusal(holder)
        print(
          f"{self._workdir}: takes over from {_describe(holder)}, which ended "
          "without removing its lock"
        )
      self._write()
      self._check_alone()
    elif buckets.is_remote(self._path):
      self._check_alone()
    self._thread = threading.Thread(target=self._refresh, daemon=True)
    self._thread.start()

  def release(self) -> None:
    """Removes the file, if this process holds the lock."""
    if self._thread is None:
      return
    self._stop.set()
    self._thread.join()
    self._thread = None
    with contextlib.suppress(OSError):
      if self._is_own(self._read()):
        self._path.unlink(missing_ok=True)

  def _create(self) -> bool:
    """Writes the file; returns False if there is one."""
    if buckets.is_remote(self._path):
      if self._path.exists():
        return False
      self._write()
      return True
    try:
      self._path.touch(exist_ok=False)  # creates the file for one process only
    except FileExistsError:
      return False
    try:
      self._write()
    except OSError:  # the disk is full
      self._path.unlink(missing_ok=True)
      raise
    return True

  def _write(self) -> None:
    jsonl.replace(self._path, json.dumps(self._record) + "\n")

  def _read(self) -> Record | None:
    """Returns the file's record, {} if damaged, None if there is no file."""
    try:
      record = json.loads(self._path.read_text())
    except FileNotFoundError:
      return None
    except ValueError:  # another process is writing it, or was killed then
      return {}
    return record if isinstance(record, dict) else {}

  def _is_own(self, record: Record | None) -> bool:
    return bool(record) and record.get("token") == self._record["token"]

  def _check_alone(self) -> None:
    """Refuses to go on if a run that started at the same time was faster."""
    time.sleep(SETTLE_SECONDS)
    holder = self._read()
    if not self._is_own(holder):
      raise self._refusal(holder or {})

  def _lives(self, holder: Record) -> bool:
    """Whether the process that wrote the record still runs."""
    this = _this_process()
    if holder.get("host") == this["host"]:
      if holder.get("boot") != this["boot"]:
        return False  # the machine was started anew since
      if holder.get("namespace") == this["namespace"]:
        started = _start_time(holder.get("pid"))
        if started is not None:
          return started == holder.get("started")
        if not _exists(holder.get("pid")):
          return False
    return self._beats(holder)

  def _beats(self, holder: Record) -> bool:
    """Watches the file; returns whether somebody rewrites it."""
    print(
      f"{self._workdir}: has a lock of {_describe(holder)}; watching for "
      f"{self._watch_seconds:.0f} s whether that run goes on"
    )
    deadline = time.monotonic() + self._watch_seconds
    while time.monotonic() < deadline:
      time.sleep(min(1.0, self._watch_seconds / 10))
      record = self._read()
      if record is None:
        return False  # the run has just ended
      if record != holder:
        return True
    return False

  def _refusal(self, holder: Record) -> mistakes.Mistake:
    return mistakes.Mistake(
      f"{self._workdir} is in use by {_describe(holder)}; wait for that run, "
      "end it, or use another workdir (if no run is there, delete "
      f"{self._path})"
    )

  def _refresh(self) -> None:
    """Rewrites the file until the lock is released; runs in a thread."""
    while not self._stop.wait(self._beat_seconds):
      try:
        holder = self._read()
        if holder and not self._is_own(holder):
          print(
            f"{self._workdir}: {_describe(holder)} took over while this process "
            "did not respond; end one of the two runs"
          )
          return
        self._record["beat"] += 1
        self._write()
      except OSError:
        continue  # a full disk or a lost connection may recover


def _this_process() -> Record:
  """What identifies this process among all machines."""
  return {
    "host": socket.gethostname(),
    "boot": _text("/proc/sys/kernel/random/boot_id"),
    "namespace": _namespace(),  # process ids of containers are their own
    "pid": os.getpid(),
    "started": _start_time(os.getpid()),
  }


def _text(path: str) -> str:
  """The content of a file of the kernel; "" where there is none."""
  try:
    return pathlib.Path(path).read_text().strip()
  except OSError:
    return ""


def _namespace() -> str:
  try:
    return os.readlink("/proc/self/ns/pid")
  except OSError:
    return ""


def _start_time(pid: Any) -> int | None:
  """When a process started, in the kernel's ticks since the machine's start.

  Returns:
    The time; -1 for a process that has ended; None where the machine has no
    `/proc`.
  """
  if not pathlib.Path("/proc/self/stat").exists():
    return None
  # The name in parentheses may hold anything. The state follows it, and the
  # start time is 19 fields after the state.
  fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
  if len(fields) < 20 or fields[0] in "ZX":  # a zombie has ended
    return -1
  return int(fields[19])


def _exists(pid: Any) -> bool:
  """Whether there is a process of this id."""
  try:
    os.kill(int(pid), 0)
  except PermissionError:
    return True
  except (OSError, TypeError, ValueError):
    return False
  return True


def _describe(holder: Record) -> str:
  """Host, process and start of a run, for messages."""
  if "pid" not in holder:
    return "another run"
  return (
    f"process {holder['pid']} on {holder.get('host')}, since "
    f"{holder.get('since')}"
  )
