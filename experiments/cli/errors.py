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
from collections.abc import Callable, Iterator

USAGE, FAILURE = 2, 1
# With these, functions refuse a value, a path, a package that is not there.
REFUSALS = (ValueError, FileNotFoundError, ImportError)


class Mistake(Exception):
  """The user's, to be said in one line."""


class Ended(Exception):
  """What a run cannot go on from, to be said in one line."""


@contextlib.contextmanager
def expected() -> Iterator[None]:
  """What is refused inside is the user's mistake.

  Raises:
    Mistake: in place of a ValueError, FileNotFoundError or ImportError.
  """
  try:
    yield
  except REFUSALS as error:
    raise Mistake(str(error)) from None


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
