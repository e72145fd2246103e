"""Lets only one run at a time use a workdir.

A run holds an exclusive `flock` on the file `run.lock` in its workdir. The text
of the file names the host and the process of the run. The kernel releases the
lock when the process ends, also if it is killed, so a killed run can be started
again at once. The process id is shown to the user only; it does not decide
whether the workdir is in use, because the system assigns ids again.

Buckets and some network file systems have no such locks. A run continues
without a lock on them, and a second run in the same workdir is not refused.
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

from experiments.training import multihost
from models import storage_paths
from rl import UsageError

LOCK_FILE = "run.lock"


@contextlib.contextmanager
def lock_workdir(workdir: epath.PathLike) -> Iterator[None]:
  """Locks a workdir for one run, which may have several processes.

  Process 0 takes the lock and sends the result to the other processes.

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
    if multihost.broadcast_from_process_0(holder is not None):
      raise UsageError(
        f"{workdir} is in use by {holder or 'another run'}; wait for that run, "
        "end it, or use another workdir"
      )
    yield


@contextlib.contextmanager
def _lock_file(path: pathlib.Path) -> Iterator[str | None]:
  """Locks a file; yields None, or the description of a run that holds it."""
  # Mode "a+" keeps the text, which another run has written if the lock cannot
  # be taken.
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
    now = datetime.datetime.now().astimezone()
    holder = {
      "host": socket.gethostname(),
      "pid": os.getpid(),
      "since": now.isoformat(" ", "seconds"),
    }
    file.truncate(0)
    file.write(json.dumps(holder) + "\n")
    file.flush()
    try:
      yield None
    finally:
      file.truncate(0)


def _describe_holder(text: str) -> str:
  """Returns a phrase that names process, host and start of a run."""
  # `text` is the text of the lock file.
  try:
    return "process {pid} on {host}, since {since}".format(**json.loads(text))
  except (ValueError, KeyError, TypeError):  # not yet written
    return "another run"
