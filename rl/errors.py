"""The exception of everything that this project refuses.

A `UsageError` says that a value, a file or a combination of parts cannot be
used. All other exceptions that leave a function of this project are bugs, of
the project or of code that a user adds, such as a transform: nothing catches or
translates them, so that they keep their type, message and traceback. `locate`
finds the line of the user's code in such a traceback.
"""

from __future__ import annotations

import os
import site
import sysconfig
import traceback
from collections.abc import Collection
from typing import NamedTuple

# Folders of the standard library and of installed packages.
LIBRARIES = (
  *site.getsitepackages(),
  site.getusersitepackages(),
  sysconfig.get_path("stdlib"),
  "<",  # code without a file, such as "<frozen importlib._bootstrap>"
)


class UsageError(ValueError):
  """A value, a file or a combination of parts is refused.

  The message has full sentences: what is wrong, what is allowed, where possible
  with the nearest valid choice, and what to do. It is shown alone, without the
  type and the place of the exception.
  """


class Place(NamedTuple):
  """A line of code: the path of its file, and its number; "" if not known."""

  file: str = ""
  line: int = 0

  def __bool__(self) -> bool:
    return bool(self.file)

  def __str__(self) -> str:
    path = os.path.relpath(self.file)
    return f"{self.file if path.startswith('..') else path}:{self.line}"


def locate(error: BaseException, files: Collection[str] = ()) -> Place:
  """Returns the line of the user's code at which an exception was raised.

  Args:
    error: an exception that has been raised.
    files: paths of the files of the user's code.

  Returns:
    The innermost line of the traceback in one of these files; or else the
    innermost line outside of installed packages.
  """
  places = [
    Place(os.path.realpath(frame.filename), frame.lineno)
    for frame in traceback.extract_tb(error.__traceback__)
    if not frame.filename.startswith(LIBRARIES)
  ]
  in_files = [place for place in places if place.file in files]
  return [Place(), *places, *in_files][-1]
