"""Errors that a command reports in one line, without a traceback.

A `UsageError` is raised for a mistake of the user before anything is written;
the command exits with status 2. A `RunError` ends a run that has begun, for
example because the disk is full; the command exits with status 1. In a
`usage_errors` block all other exceptions become a `UsageError`. Outside of it
they indicate a bug of this project and are shown with their traceback.

Example:

  @errors.command
  def main(argv=None) -> int:
    with errors.usage_errors():
      experiment = validate(argv)  # every exception is reported in one line
    run(experiment)  # only a UsageError or RunError is reported in one line
    return 0
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import os
import sys
import traceback
from collections.abc import Callable, Iterator

from etils import epath

USAGE, FAILURE = 2, 1  # exit statuses
# Exceptions that functions of this project raise for a wrong value, a path that
# cannot be used, or a missing package. Their messages are full sentences, so
# that the type and the place of the exception need not be shown.
REFUSALS = (ValueError, OSError, ImportError)

# Error numbers of the file system whose cause is the machine, not this project.
_DISK_ERRORS = (
  *(errno.ENOSPC, errno.EDQUOT),  # no space left
  *(errno.EROFS, errno.EACCES, errno.EPERM),  # no permission to write
  errno.EIO,  # a device that fails
  # a path that cannot be written to
  *(errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG),
)


class UsageError(Exception):
  """A mistake of the user, for example in a flag, a config or a path."""


class RunError(Exception):
  """The reason why a run that has begun cannot go on."""


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
  """Re-raises exceptions, except `RunError`, as a `UsageError`.

  Raises:
    UsageError: the block raised an exception. The message is that of the
      exception if its type is one of `REFUSALS`; otherwise it also has the type
      and the line of code.
    RunError: the block raised it.
  """
  try:
    yield
  except REFUSALS as error:
    raise UsageError(str(error)) from None
  except (UsageError, RunError):
    raise
  except Exception as error:
    raise UsageError(describe_with_place(error)) from error


def describe_with_place(error: BaseException) -> str:
  """Returns the type, the message and the line of code of an exception.

  An example is "TypeError: 'int' object is not callable (my_config.py:12)". The
  line is the innermost one outside of installed packages.
  """
  message = f"{type(error).__name__}: {error}"
  if isinstance(error, SyntaxError):  # its message already has file and line
    return message
  frames = [
    frame
    for frame in traceback.extract_tb(error.__traceback__)
    if "site-packages" not in frame.filename
  ]
  if not frames:
    return message
  return f"{message} ({frames[-1].filename}:{frames[-1].lineno})"


@contextlib.contextmanager
def translate_disk_errors(workdir: epath.PathLike) -> Iterator[None]:
  """Re-raises disk errors (full, read-only, permission) as a `RunError`.

  They are those of Python, Orbax and TensorStore. Other exceptions are raised
  unchanged.
  """
  try:
    yield
  except Exception as error:
    reason, file = _find_disk_error(error)
    if not reason:
      raise
    # Orbax commits a checkpoint only when it is complete, so a failed write
    # leaves the earlier checkpoints as they are.
    raise RunError(
      f"{file or workdir}: {reason}. The checkpoints in {workdir} are intact; "
      "once the disk can be written to again, the same command resumes the run "
      "from the latest checkpoint"
    ) from error


@contextlib.contextmanager
def output_errors(file: epath.PathLike, advice: str) -> Iterator[None]:
  """Re-raises an `OSError` of writing a command's output as a `RunError`.

  `advice` ends the message: what is not lost, and what to do.
  """
  try:
    yield
  except OSError as error:
    reason = error.strerror or error
    raise RunError(f"{file} cannot be written: {reason}; {advice}") from error


def command(main: Callable[..., int]) -> Callable[..., int]:
  """Decorates the main function of a command.

  Its errors take one line, and the lines that it prints appear at once, also in
  a file or a pipe. transformers does not warn that PyTorch is missing, which
  tokenizers do not need.

  Returns:
    The same function, which prints a `UsageError` or `RunError` to stderr and
    returns the exit status 2 or 1.
  """

  @functools.wraps(main)
  def call(*args, **kwargs) -> int:
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    if isinstance(sys.stdout, io.TextIOWrapper):
      sys.stdout.reconfigure(line_buffering=True)
    try:
      return main(*args, **kwargs)
    except (UsageError, RunError) as error:
      print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
      return USAGE if isinstance(error, UsageError) else FAILURE

  return call


def _find_disk_error(error: BaseException | None) -> tuple[str, str]:
  """Returns the reason and the file of a disk error among an error's causes."""
  chain: list[BaseException] = []
  while error is not None and error not in chain:
    chain.append(error)
    for code in _DISK_ERRORS:
      reason = os.strerror(code)
      has_code = isinstance(error, OSError) and error.errno == code
      # TensorStore raises a UsageError without the error number, whose message
      # contains the operating system's text.
      if has_code or reason in str(error):
        # The file is "" if it is not known.
        return reason, str(getattr(error, "filename", None) or "")
    error = error.__cause__ or error.__context__
  return "", ""  # no disk error
