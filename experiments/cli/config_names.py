"""Checks the names of configs: the texts that follow `--config`.

A config file defines either one config, `get_config()`, or several named ones.
A file with several is used as `--config FILE.py:NAME` and has three functions:

  names()             returns the valid names
  get_config(name)    returns the config of a name
  summary(name)       returns one phrase that describes the config
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping

from ml_collections import ConfigDict

from rl import UsageError

FOLDER = "experiments/configs"
LIST_COMMAND = "python -m experiments.catalogue configs"


class NamedConfigs:
  """The three functions of a file with several configs."""

  def __init__(
    self, file: str, configs: Mapping[str, Callable[[], ConfigDict]]
  ) -> None:
    """Keeps the configs of the file `FILE.py`, by name."""
    self._file, self._configs = file, configs

  def names(self) -> list[str]:
    """Returns the valid names."""
    return list(self._configs)

  def summary(self, name: str) -> str:
    """Returns the first sentence of the function of a name."""
    return first_sentence(self._configs[name])

  def get_config(self, name: str = "") -> ConfigDict:
    """Returns the config of a name; refuses a missing or unknown one."""
    check(self._file, name, self._configs)
    return self._configs[name]()


def check(file: str, name: str, names: Iterable[str]) -> None:
  """Checks that a name is one of those that a config file defines.

  Args:
    file: name of the config file without the folder and ".py".
    name: text after the colon of `--config FILE.py:NAME`; "" if it is missing.
    names: names that the file defines.

  Raises:
    UsageError: the name is missing or unknown. The message has the command that
      lists all names and, if there is one, a similar name.
  """
  names = list(names)
  path = f"{FOLDER}/{file}.py"
  if not name:
    raise UsageError(
      f"--config {path} must have a name after a colon, such as "
      f"{path}:{names[0]}; "
      f"`{LIST_COMMAND}` lists all names"
    )
  if name not in names:
    # Names are short, so matches below difflib's default of 0.6 are useful.
    matches = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.3)
    guess = f"did you mean {path}:{matches[0]}? " if matches else ""
    raise UsageError(
      f"{path} has no config {name!r}; {guess}`{LIST_COMMAND}` lists all names"
    )


def first_sentence(documented: object) -> str:
  """Returns the docstring's first paragraph as one line, without its period."""
  paragraph = (inspect.getdoc(documented) or "").partition("\n\n")[0]
  return " ".join(paragraph.split()).rstrip(".")
