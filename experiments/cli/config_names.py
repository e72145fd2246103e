"""Names of configs: what follows `--config`.

A config file holds one config, `get_config()`, or several by name. A file of
several is used as `--config FILE.py:NAME` and has three functions:

  names()             the names that it accepts
  get_config(name)    the config of that name
  summary(name)       one phrase that says what the config is
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
from collections.abc import Iterable

FOLDER = "experiments/configs"
LIST_COMMAND = "python -m experiments.catalogue configs"
# Modules of the folder that hold no config.
_NO_CONFIGS = ("defaults",)


def check(file: str, name: str, names: Iterable[str]) -> None:
  """Checks the name of a config.

  Args:
    file: stem of the config file, such as "method".
    name: text after the colon of `--config FILE.py:NAME`; "" if it is missing.
    names: names that the file accepts.

  Raises:
    ValueError: if the name is missing or unknown; the message has the nearest
      name and the command that lists all of them.
  """
  names = list(names)
  path = f"{FOLDER}/{file}.py"
  if not name:
    raise ValueError(
      f"--config {path} needs a name after a colon, such as {path}:{names[0]}; "
      f"`{LIST_COMMAND}` lists all names"
    )
  if name not in names:
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.3)
    guess = f"did you mean {path}:{near[0]}? " if near else ""
    raise ValueError(
      f"{path} has no config {name!r}; {guess}`{LIST_COMMAND}` lists all names"
    )


def listing() -> dict[str, str]:
  """Returns one phrase for each config, by the text that follows `--config`."""
  configs = importlib.import_module("experiments.configs")
  phrases = {}
  for info in pkgutil.iter_modules(configs.__path__):
    if info.name in _NO_CONFIGS:
      continue
    module = importlib.import_module(f"{configs.__name__}.{info.name}")
    path = f"{FOLDER}/{info.name}.py"
    if hasattr(module, "names"):
      for name in module.names():
        phrases[f"{path}:{name}"] = module.summary(name)
    else:
      phrases[path] = first_sentence(module)
  return phrases


def first_sentence(documented: object) -> str:
  """Returns the first paragraph of a docstring as one line, without the dot."""
  paragraph = (inspect.getdoc(documented) or "").partition("\n\n")[0]
  return " ".join(paragraph.split()).rstrip(".")
