"""Published methods, one short file each, looked up by name.

A file `NAME.py`, in this folder or in the folder of a family, defines a
function `NAME(**hyper) -> Method`, or `-> {learner: Method}` if several
networks learn (`rl.learners`). A new method needs no registration: its file is
imported from here. The other files of a family's folder hold functions that its
methods share.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

from rl import UsageError, factories, learners, registry
from rl.method import Method


def _factories() -> dict[str, Callable]:
  """Returns the factory of every method, by the name of the method."""
  # The cache depends on `__path__`, to which tests add a folder of their own.
  return _factories_in(tuple(__path__))


@functools.cache
def _factories_in(folders: tuple[str, ...]) -> dict[str, Callable]:
  """Returns the functions that are named like the module that defines them."""
  factory_of: dict[str, Callable] = {}
  # `walk_packages` also visits the subfolders of `folders`.
  for module in pkgutil.walk_packages(folders, f"{__name__}."):
    name = module.name.rpartition(".")[-1]
    function = getattr(registry.import_module(module.name), name, None)
    if inspect.isfunction(function):
      registry.add(factory_of, "method", name, function)
  return dict(sorted(factory_of.items()))


def names() -> list[str]:
  """Returns the names of all methods, sorted."""
  return list(_factories())


def factory(name: str) -> Callable[..., Method | dict[str, Method]]:
  """Returns the function that makes the method of a name.

  Args:
    name: one of `names()`, or "module:function".

  Raises:
    UsageError: if the method is unknown; the message names the nearest one.
  """
  if ":" in name:
    return registry.load("method", name)
  if name not in _factories():
    raise UsageError(registry.describe_unknown("method", name, names()))
  return _factories()[name]


def family(name: str) -> str:
  """Returns the folder of a method, such as "group".

  Returns "" for a method whose file is in no folder of a family.
  """
  folders = factory(name).__module__.split(".")[2:-1]
  return folders[0] if folders else ""


def get(name: str, **hyper: Any) -> Method | dict[str, Method]:
  """Returns the method of a name, or the methods of its learners by name.

  Args:
    name: one of `names()`, or "module:function".
    **hyper: hyper-parameters; the others have the defaults of the method.

  Raises:
    UsageError: if the method or a hyper-parameter is unknown, a value has
      another type than the default, or the method refuses it; or if a file in
      this folder cannot be imported.
  """
  make = factory(name)
  registry.check_settings("hyper-parameter", name, make, hyper)
  label = factories.label(name, hyper) if hyper else name
  method = make(**hyper)
  if not isinstance(method, Method | Mapping):
    raise UsageError(f"{label} must return a Method, not {method!r:.60}")
  if not isinstance(method, Mapping):
    return dataclasses.replace(method, name=label)
  labels = {learner: f"{label}: {learner}" for learner in method}
  labels[learners.POLICY] = label
  return {
    learner: dataclasses.replace(learner_method, name=labels[learner])
    for learner, learner_method in method.items()
  }
