"""Tasks by name: `get("countdown", count=4)`.

A task is a file of this folder, or of `text/`, with a factory of the same name:
`countdown.py` defines `countdown`. There is no other registration. `get`
imports only the file of the task that it builds, so that a task that is scored
on the device does not import the libraries of text tasks.
"""

from __future__ import annotations

import inspect
import pkgutil
import types
from collections.abc import Callable
from typing import Any

from experiments.tasks import text
from experiments.tasks.task import Judged, Problems, Task
from rl import registry

__all__ = [
  "Judged",
  "Problems",
  "Task",
  "factory",
  "get",
  "module",
  "names",
  "settings",
]

# Packages, and modules that define no task.
_NOT_TASKS = {
  *("free_prompts", "length_limits", "line_scores", "numbered_problems"),
  *("prompting", "reference_views", "scoring", "task", "text", "text_options"),
  *("text_task", "turns"),
}


def names() -> list[str]:
  """Returns the names of all tasks, sorted."""
  return sorted(_module_names())


def get(name: str, **kwargs: Any) -> Task:
  """Builds a task.

  Args:
    name: one of `names()`, or "module:function".
    **kwargs: settings of the task's factory; see `settings`.

  Raises:
    UsageError: if the name or a setting is unknown, or the value of a setting
      is not allowed.
  """
  make = factory(name)
  registry.check_settings("setting", f"task {name!r}", make, kwargs)
  return make(**kwargs)


def settings(name: str) -> list[str]:
  """Returns the names of a task's settings.

  Raises:
    UsageError: if the task is unknown.
  """
  return list(inspect.signature(factory(name)).parameters)


def factory(name: str) -> Callable[..., Task]:
  """Returns the function that builds a task.

  Args:
    name: one of `names()`, or "module:function".

  Raises:
    UsageError: if the task is unknown; or if the task's file cannot be
      imported.
  """
  if ":" in name:
    return registry.load("task", name)
  return getattr(module(name), name)


def module(name: str) -> types.ModuleType:
  """Imports the file of a task.

  Raises:
    UsageError: if the task is unknown; or if the task's file cannot be
      imported.
  """
  module_names = _module_names()
  registry.check_known("task", name, sorted(module_names))
  return registry.import_module(module_names[name])


def _module_names() -> dict[str, str]:
  """Returns module names by task: {"gsm8k": "experiments.tasks.text.gsm8k"}."""
  folders = {__name__: __path__, text.__name__: text.__path__}
  return {
    info.name: f"{package}.{info.name}"
    for package, path in folders.items()
    for info in pkgutil.iter_modules(path)
    if info.name not in _NOT_TASKS
  }
