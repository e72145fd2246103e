"""Tasks by name: `get("countdown", count=4)`.

A task is a file of this package with a factory of the same name; adding the
file is all the registration there is. A factory is imported when it is asked
for, so that the embedded tasks do not wait for the libraries of the text ones.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
from collections.abc import Iterable
from typing import Any

from experiments.tasks.task import Judged, Problems, Task, supervised_tokens

__all__ = ["Judged", "Problems", "Task", "get", "names", "supervised_tokens"]


def names() -> list[str]:
  """The tasks that `get` knows, sorted."""
  files = {module.name for module in pkgutil.iter_modules(__path__)}
  return sorted(files - {"task"})  # the interface, not a task


def get(name: str, **kwargs: Any) -> Task:
  """Builds a task.

  Args:
    name: one of `names()`.
    **kwargs: the factory's settings; those not given keep their defaults.

  Returns:
    The task.

  Raises:
    ValueError: the name or a keyword is unknown, or its value is refused.
  """
  if name not in names():
    raise ValueError(_unknown("task", name, names()))
  factory = getattr(importlib.import_module(f"{__name__}.{name}"), name)
  allowed = list(inspect.signature(factory).parameters)
  for keyword in kwargs:
    if keyword not in allowed:
      raise ValueError(_unknown(f"setting of task {name!r}", keyword, allowed))
  return factory(**kwargs)


def _unknown(kind: str, value: str, allowed: Iterable[str]) -> str:
  near = difflib.get_close_matches(str(value), allowed, 1, cutoff=0.0)
  guess = f"; did you mean {near[0]!r}?" if near else ";"
  return f"unknown {kind} {value!r}{guess} available: {', '.join(allowed)}"
