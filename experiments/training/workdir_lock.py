"""Lets a single run use a workdir at a time.

A run holds an exclusive `flock` on the file `run.lock` in its workdir, which
names the host and the process of the run. The kernel releases the lock when the
process ends, however it ends, so a killed run is restarted without a hand's work
and no process id is compared.

Buckets and some network file systems have no such locks. A run goes on there
without one, and two runs in one workdir are not noticed.
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
def hold(workdir: epath.PathLike) -> Iterator[None]:
  """Holds a workdir for one run, which may have several processes.

  Process 0 takes the lock; the other processes wait for its result.

  Args:
    workdir: folder of the run; it must exist.

  Raises:
    UsageError: if another run holds the workdir.
  """
  with contextlib.ExitStack() as stack:
    holder = None
    if jax.process_index() == 0 and not storage_paths.is_remote(workdir):
      holder = stack.enter_context(_locked(pathlib.Path(workdir) / LOCK_FILE))
    is_refused = holder is not None
    if jax.process_count() > 1:
      is_refused = multihost.agreed(is_refused)
    if is_refused:
      raise errors.UsageError(
        f"{workdir} is in use by {holder or 'another run'}; wait for that run, "
        "end it, or use another workdir"
      )
    yield


@contextlib.contextmanager
def _locked(path: pathlib.Path) -> Iterator[str | None]:
  """Holds the lock of a file; yields a description of its holder if it is taken.

  Opened without truncation: until the lock is held, the text is the holder's.
  """
  with open(path, "a+") as file:
    try:
      fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      file.seek(0)
      yield _describe(file.read())
      return
    except OSError as error:  # the file system has no locks
      print(f"{path}: not locked ({error.strerror}); start no second run here")
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


def _describe(text: str) -> str:
  """Host, process and start of the run that wrote the text, for a message."""
  try:
    return "process {pid} on {host}, since {since}".format(**json.loads(text))
  except (ValueError, KeyError, TypeError):  # not yet written
    return "another run"
