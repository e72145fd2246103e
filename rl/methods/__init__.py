"""Published methods, one short file each, looked up by name.

A file `NAME.py`, here or in the folder of a family, defines a function
`NAME(**hyper) -> Method`, or `-> {learner: Method}` if several networks learn
(`rl.learners`). Adding the file is all it takes. Other files of a folder hold
what its family shares.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

from rl import factories, learners, registry
from rl.method import Method


def _factories() -> dict[str, Callable]:
  """Returns the factory of every method by name."""
  # `__path__` is an argument so that tests can add a folder.
  return _factories_in(tuple(__path__))


@functools.cache
def _factories_in(folders: tuple[str, ...]) -> dict[str, Callable]:
  """Returns the functions that are named like the module that defines them."""
  factory_of = {}
  for module in pkgutil.walk_packages(folders, f"{__name__}."):
    name = module.name.rpartition(".")[-1]
    function = getattr(registry.import_module(module.name), name, None)
    if inspect.isfunction(function):
      factory_of[name] = function
  return dict(sorted(factory_of.items()))


def names() -> list[str]:
  """Returns the names of all methods, sorted."""
  return list(_factories())


def factory(name: str) -> Callable[..., Method | dict[str, Method]]:
  """Returns the function that makes the method of a name.

  Raises:
    ValueError: if the method is unknown; the message names the nearest one.
  """
  if name not in _factories():
    raise ValueError(registry.describe_unknown("method", name, names()))
  return _factories()[name]


def family(name: str) -> str:
  """Returns the folder of a method, such as "group"; "" for a file without one."""
  folders = factory(name).__module__.split(".")[2:-1]
  return folders[0] if folders else ""


def get(name: str, **hyper: Any) -> Method | dict[str, Method]:
  """Returns the method of a name, or the methods of its learners by name.

  Args:
    name: one of `names()`.
    **hyper: hyper-parameters. Defaults are those of the paper.

  Raises:
    ValueError: if the method or a hyper-parameter is unknown, or a value has
      another type or is refused by the method.
    ImportError: if a file of methods has a mistake.
  """
  make = factory(name)
  registry.check_settings("hyper-parameter", name, make, hyper)
  label = factories.label(name, hyper) if hyper else name
  method = make(**hyper)
  if not isinstance(method, Mapping):
    return dataclasses.replace(method, name=label)
  labels = {learner: f"{label}: {learner}" for learner in method}
  labels[learners.POLICY] = label
  return {
    learner: dataclasses.replace(one, name=labels[learner])
    for learner, one in method.items()
  }
