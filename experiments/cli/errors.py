"""What a command says where it cannot go on: one line, and exit status 2 or 1.

2 is the user's mistake, found before anything is written; 1 is what ended a run
that had begun, such as a full disk.

@mistakes.one_line
def main(argv=None) -> int:
  with mistakes.expected():
    experiment = prepare(argv)  # may refuse what it is given
  run(experiment)               # what fails here is our fault: a traceback
  return 0
"""

from __future__ import annotations

import contextlib
import functools
import sys
import traceback
from collections.abc import Callable, Iterator

USAGE, FAILURE = 2, 1
# Exceptions by which functions refuse a value, a path, or a missing package.
# Their message is complete.
REFUSALS = (ValueError, OSError, ImportError)


class Mistake(Exception):
  """The user's, to be said in one line."""


class Ended(Exception):
  """What a run cannot go on from, to be said in one line."""


@contextlib.contextmanager
def expected() -> Iterator[None]:
  """Turns an exception into a `Mistake`, which is printed in one line.

  Raises:
    Mistake: in place of an exception of `REFUSALS`, with its message, and of any
      other exception, with its type and its place in the code.
  """
  try:
    yield
  except (Mistake, Ended):
    raise
  except REFUSALS as error:
    raise Mistake(str(error)) from None
  except Exception as error:
    raise Mistake(describe_with_place(error)) from error


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


def one_line(main: Callable[..., int]) -> Callable[..., int]:
  """Decorator of a command: its `Mistake` or `Ended` is a line on stderr.

  Args:
    main: returns its exit status.

  Returns:
    The same, which raises neither; its status is then 2 or 1.
  """

  @functools.wraps(main)
  def command(*args, **kwargs) -> int:
    try:
      return main(*args, **kwargs)
    except (Mistake, Ended) as error:
      print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
      return USAGE if isinstance(error, Mistake) else FAILURE

  return command
