"""Tasks by name: `get("countdown", count=4)`.

A task is a file of this package with a factory of the same name; adding the
file is all the registration there is. A factory is imported when it is asked
for, so that the embedded tasks do not wait for the libraries of the text ones.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable
from typing import Any

from experiments.tasks.task import Judged, Problems, Task, supervised_tokens
from rl import choices
from rl.methods import settings as allowed
from rl.methods import unfinished

__all__ = [
  "Judged",
  "Problems",
  "Task",
  "factory",
  "get",
  "names",
  "settings",
  "supervised_tokens",
]


def names() -> list[str]:
  """The tasks that `get` knows, sorted."""
  files = {module.name for module in pkgutil.iter_modules(__path__)}
  return sorted(
    files - {"language", "task", "text"}
  )  # what tasks are made with


def settings(name: str) -> list[str]:
  """The keywords that a task's factory takes.

  Raises:
    ValueError: the name is unknown.
  """
  return list(inspect.signature(factory(name)).parameters)


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
  make = factory(name)
  allowed.check("setting", f"task {name!r}", make, kwargs)
  return make(**kwargs)


def factory(name: str) -> Callable[..., Task]:
  """The function that makes a task.

  Raises:
    ValueError: the name is unknown.
    ImportError: the task's file has a mistake.
  """
  if name not in names():
    raise ValueError(choices.unknown("task", name, names()))
  return getattr(unfinished.module(f"{__name__}.{name}"), name)
