"""What a command says of a user's mistake: one line, and exit status 2.

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

USAGE = 2
# With these, functions refuse a value, a path, a package that is not there.
_REFUSALS = (ValueError, FileNotFoundError, ImportError)


class Mistake(Exception):
  """The user's, to be said in one line."""


@contextlib.contextmanager
def expected() -> Iterator[None]:
  """What is refused inside is the user's mistake.

  Raises:
    Mistake: in place of a ValueError, FileNotFoundError or ImportError.
  """
  try:
    yield
  except _REFUSALS as error:
    raise Mistake(str(error)) from None


def one_line(main: Callable[..., int]) -> Callable[..., int]:
  """Decorator of a command: its `Mistake` is a line on stderr and status 2.

  Args:
    main: returns its exit status.

  Returns:
    The same, which raises no `Mistake`.
  """

  @functools.wraps(main)
  def command(*args, **kwargs) -> int:
    try:
      return main(*args, **kwargs)
    except Mistake as mistake:
      print(f"error: {' '.join(str(mistake).split())}", file=sys.stderr)
      return USAGE

  return command
