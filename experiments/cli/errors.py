"""Errors that a command reports in one line, without a traceback.

A `UsageError` is a mistake of the user, found before anything is written; the
command exits with status 2. A `RunError` ends a run that had begun, such as a
full disk; the command exits with status 1. Outside of `usage_errors`, every
other exception is a mistake in this project, and keeps its traceback.

Example:

  @errors.one_line_errors
  def main(argv=None) -> int:
    with errors.usage_errors():
      experiment = validate(argv)  # an exception here is printed in one line
    run(experiment)  # an exception here keeps its traceback
    return 0
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import sys
import traceback
from collections.abc import Callable, Iterator

from etils import epath

USAGE, FAILURE = 2, 1  # exit statuses
# Exceptions by which functions refuse a value, a path, or a missing package.
# Their message is complete.
REFUSALS = (ValueError, OSError, ImportError)

# Errors of the file system that no change of this project could prevent.
_DISK_ERRORS = (
  # no space left
  errno.ENOSPC,
  errno.EDQUOT,
  # no permission to write
  errno.EROFS,
  errno.EACCES,
  errno.EPERM,
  # a device that fails
  errno.EIO,
  # a path that cannot be written to
  errno.ENOTDIR,
  errno.EISDIR,
  errno.ENAMETOOLONG,
)


class UsageError(Exception):
  """A mistake of the user; its message is shown in one line."""


class RunError(Exception):
  """A reason why a run cannot go on; its message is shown in one line."""


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
  """Re-raises an exception as a `UsageError`, which is printed in one line.

  Raises:
    UsageError: in place of an exception of `REFUSALS`, with its message, and of
      any other exception, with its type and its place in the code.
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
  """Returns type, message and place of an exception, for example
  "TypeError: 'int' object is not callable (my_config.py:12)".
  """
  message = f"{type(error).__name__}: {error}"
  if isinstance(error, SyntaxError):  # its message has the place
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

  Other exceptions pass unchanged.

  Args:
    workdir: folder of the run, for the message.

  Raises:
    RunError: if Python, Orbax or TensorStore raise a disk error inside.
  """
  try:
    yield
  except Exception as error:
    reason, file = _find_disk_error(error)
    if not reason:
      raise
    raise RunError(
      f"{file or workdir}: {reason}. The checkpoints in {workdir} are intact; "
      "once this is repaired, the same command resumes from the last one"
    ) from error


def one_line_errors(main: Callable[..., int]) -> Callable[..., int]:
  """Decorates the main function of a command to print its errors in one line.

  Args:
    main: function that returns the exit status.

  Returns:
    The same function, which prints a `UsageError` or `RunError` to stderr and
    returns the exit status 2 or 1.
  """

  @functools.wraps(main)
  def command(*args, **kwargs) -> int:
    try:
      return main(*args, **kwargs)
    except (UsageError, RunError) as error:
      print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
      return USAGE if isinstance(error, UsageError) else FAILURE

  return command


def _find_disk_error(error: BaseException | None) -> tuple[str, str]:
  """Returns (reason, file) of a disk error among an exception and its causes.

  The reason is the text of the operating system; both are "" if there is none.
  """
  chain: list[BaseException] = []
  while error is not None and error not in chain:
    chain.append(error)
    for code in _DISK_ERRORS:
      reason = os.strerror(code)
      # TensorStore raises a ValueError that holds the text alone.
      has_code = isinstance(error, OSError) and error.errno == code
      if has_code or reason in str(error):
        return reason, str(getattr(error, "filename", None) or "")
    error = error.__cause__ or error.__context__
  return "", ""
