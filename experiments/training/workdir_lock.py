"""Lets only one run at a time use a workdir.

A run holds an exclusive `flock` on the file `run.lock` in its workdir, which
names the host and the process of the run. The kernel releases the lock when the
process ends, however it ends. A killed run can therefore be started again at
once, and process ids, which the system uses again, are never compared.

Buckets and some network file systems have no such locks. There a run goes on
without one, and a second run in the same workdir is not noticed.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import os
import pathlib
import socket
from collections.abc import Iterator

import jax
from etils import epath

from experiments.cli import errors
from experiments.training import multihost
from models import storage_paths

LOCK_FILE = "run.lock"


@contextlib.contextmanager
def lock_workdir(workdir: epath.PathLike) -> Iterator[None]:
  """Locks a workdir for one run, which may have several processes.

  Process 0 takes the lock; the other processes wait for its result.

  Args:
    workdir: folder of the run; it must exist.

  Raises:
    UsageError: another run holds the lock.
  """
  with contextlib.ExitStack() as exit_stack:
    holder = None
    if jax.process_index() == 0 and not storage_paths.is_remote(workdir):
      lock = _lock_file(pathlib.Path(workdir) / LOCK_FILE)
      holder = exit_stack.enter_context(lock)
    is_locked = holder is not None
    if jax.process_count() > 1:
      is_locked = multihost.broadcast_from_process_0(is_locked)
    if is_locked:
      raise errors.UsageError(
        f"{workdir} is in use by {holder or 'another run'}; wait for that run, "
        "end it, or use another workdir"
      )
    yield


@contextlib.contextmanager
def _lock_file(path: pathlib.Path) -> Iterator[str | None]:
  """Locks a file; yields None, or the description of a run that holds it."""
  # Opened without truncation: until the lock is taken, the text is the
  # holder's.
  with open(path, "a+") as file:
    try:
      fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      file.seek(0)
      yield _describe_holder(file.read())
      return
    except OSError as error:  # the file system has no locks
      print(
        f"{path}: not locked ({error.strerror}); start no second run in this "
        "workdir"
      )
      yield None
      return
    file.truncate(0)
    file.write(json.dumps(_this_process()) + "\n")
    file.flush()
    try:
      yield None
    finally:
      file.truncate(0)


def _this_process() -> dict[str, str | int]:
  now = datetime.datetime.now().astimezone()
  return {
    "host": socket.gethostname(),
    "pid": os.getpid(),
    "since": now.isoformat(" ", "seconds"),
  }


def _describe_holder(text: str) -> str:
  """Returns host, process and start of the run that wrote the text."""
  try:
    return "process {pid} on {host}, since {since}".format(**json.loads(text))
  except (ValueError, KeyError, TypeError):  # not yet written
    return "another run"
