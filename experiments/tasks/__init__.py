"""Tasks by name: `get("countdown", count=4)`.

A task is a file of this folder, or of `text/`, with a factory of the same name;
adding the file is all the registration there is. `get` imports the file of one
task only, so that the embedded tasks do not import the libraries of text tasks.
"""

from __future__ import annotations

import inspect
import pathlib
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

# Files that tasks are built from.
_NOT_TASKS = {"__init__.py", "task.py", "text_task.py", "prompting.py"}


def _modules() -> dict[str, str]:
  """Returns the module of each task, by the name of the task."""
  folder = pathlib.Path(__file__).parent
  paths = [*folder.glob("*.py"), *folder.glob("text/*.py")]
  return {
    path.stem: ".".join(
      (__name__, *path.relative_to(folder).with_suffix("").parts)
    )
    for path in paths
    if path.name not in _NOT_TASKS
  }


def names() -> list[str]:
  """The tasks that `get` accepts, sorted."""
  return sorted(_modules())


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
  return getattr(unfinished.module(_modules()[name]), name)
