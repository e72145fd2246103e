"""Published methods, one short file each, found by name.

A file `NAME.py`, here or in a family's folder, holds a function
`NAME(**hyper) -> Method`, or `-> {slot: Method}` where several networks learn
(`rl.learners`); adding the file is all it takes. Other files of a folder hold
what only that family shares.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

from rl import choices, factories, learners
from rl.method import Method
from rl.methods import settings, unfinished


def _factories() -> dict[str, Callable]:
  """Every function that a module of its own name defines, by that name."""
  return _defined(tuple(__path__))


@functools.cache
def _defined(folders: tuple[str, ...]) -> dict[str, Callable]:
  found = {}
  for module in pkgutil.walk_packages(folders, f"{__name__}."):
    name = module.name.rpartition(".")[-1]
    make = getattr(unfinished.module(module.name), name, None)
    if inspect.isfunction(make):
      found[name] = make
  return dict(sorted(found.items()))


def names() -> list[str]:
  """The methods there are, sorted."""
  return list(_factories())


def factory(name: str) -> Callable[..., Method | dict[str, Method]]:
  """The function that makes the method of that name.

  Raises:
    ValueError: unknown method, with the nearest one.
  """
  if name not in _factories():
    raise ValueError(choices.unknown("method", name, names()))
  return _factories()[name]


def family(name: str) -> str:
  """The folder of a method: group, sets, process, ...; "" of a loose file."""
  folders = factory(name).__module__.split(".")[2:-1]
  return folders[0] if folders else ""


def get(name: str, **hyper: Any) -> Method | dict[str, Method]:
  """The method of that name, or the methods of its learners by slot.

  Args:
    name: one of `names()`.
    **hyper: its hyper-parameters; the paper's are the defaults.

  Raises:
    ValueError: unknown method or hyper-parameter, or a value of another type,
      with the nearest one.
    ImportError: a file of methods has a mistake.
  """
  make = factory(name)
  settings.check("hyper-parameter", name, make, hyper)
  shown = factories.label(name, hyper) if hyper else name
  made = make(**hyper)
  if not isinstance(made, Mapping):
    return dataclasses.replace(made, name=shown)
  titles = {slot: f"{shown}: {slot}" for slot in made}
  titles[learners.POLICY] = shown
  return {
    slot: dataclasses.replace(one, name=titles[slot])
    for slot, one in made.items()
  }
