"""Errors that a command reports in one line, without a traceback.

A `UsageError` says what this project refuses, an `OSError` that a file cannot
be used, and an `ImportError` that a package is missing; the command exits with
status 2. A `RunError` ends a run that has begun, for example because the disk
is full; the command exits with status 1. Every other exception is a bug, of
this project or of code that a user wrote. The command then reports what it was
doing, the line of code, and the type and message of the exception, with status
1. The flag `--traceback`, which every command has, also prints the traceback.

Example:

  @errors.command
  def main(argv=None) -> int:
    with errors.doing("checking the run", files):
      experiment = validate(argv)
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
from collections.abc import Callable, Collection, Iterator, Sequence

from etils import epath

from rl import UsageError
from rl.errors import locate

USAGE, FAILURE = 2, 1  # exit statuses
TRACEBACK = "--traceback"
# Error numbers of the file system whose cause is the machine, not this project.
_DISK_ERRORS = (
  *(errno.ENOSPC, errno.EDQUOT),  # no space left
  *(errno.EROFS, errno.EACCES, errno.EPERM),  # no permission to write
  errno.EIO,  # a device that fails
  # a path that cannot be written to
  *(errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG),
)


class RunError(Exception):
  """The reason why a run that has begun cannot go on."""


@contextlib.contextmanager
def doing(activity: str, files: Collection[str]) -> Iterator[None]:
  """Re-raises a bug as a `RunError`, with what the block does.

  Args:
    activity: what the block does, such as "checking the run".
    files: files of the user's code, for `describe`.
  """
  try:
    yield
  except (UsageError, RunError):
    raise
  except Exception as error:
    is_of_user = locate(error, files).file in files
    if isinstance(error, OSError | ImportError) and not is_of_user:
      raise
    raise RunError(describe(error, activity, files)) from error


def describe(
  error: BaseException, activity: str = "", files: Collection[str] = ()
) -> str:
  """Returns what was done, the type, the message and the line of an exception.

  An example is "tracing my_method: my_method.py:12: KeyError: oops".

  Args:
    error: an exception that has been raised.
    activity: what was done. The notes of the exception follow it.
    files: files of the user's code. The line is the innermost one in these
      files; or else the innermost one outside of installed packages.
  """
  # The first paragraph; JAX explains its errors in further ones.
  is_key = isinstance(error, KeyError) and error.args
  text = error.args[0] if is_key else error  # without the quotation marks
  message = " ".join(str(text).strip().partition("\n\n")[0].split())
  notes = (note.strip() for note in getattr(error, "__notes__", ()))
  words = [activity, *reversed([n for n in notes if "\n" not in n])]
  if not isinstance(error, SyntaxError):  # which has its place
    words.append(str(locate(error, files) or ""))
    message = f"{message.rstrip('.')}; {TRACEBACK} shows the whole traceback"
  words += [type(error).__name__, message]
  return ": ".join(filter(None, words))


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
    The same function, which prints an exception to stderr and returns the exit
    status. It accepts the flag `--traceback`.
  """

  @functools.wraps(main)
  def call(argv: Sequence[str] | None = None) -> int:
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    if isinstance(sys.stdout, io.TextIOWrapper):
      sys.stdout.reconfigure(line_buffering=True)
    argv = sys.argv[1:] if argv is None else list(argv)
    shows_traceback = TRACEBACK in argv
    try:
      return main([argument for argument in argv if argument != TRACEBACK])
    except Exception as error:
      if shows_traceback:
        traceback.print_exception(error)
      is_usage = isinstance(error, UsageError | OSError | ImportError)
      is_complete = is_usage or isinstance(error, RunError)
      message = str(error) if is_complete else describe(error)
      print(f"error: {' '.join(message.split())}", file=sys.stderr)
      return USAGE if is_usage else FAILURE

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
