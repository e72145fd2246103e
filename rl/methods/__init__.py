"""Published methods, one short file each, found by name.

A file `rl/methods/NAME.py` holds a function `NAME(**hyper) -> Method`, or `->
{slot: Method}` where several networks learn (`rl.learners`); adding the file is
all it takes.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from typing import Any

from rl import choices, factories, learners
from rl.method import Method


def names() -> list[str]:
  """The methods there are, sorted."""
  return sorted(module.name for module in pkgutil.iter_modules(__path__))


def get(name: str, **hyper: Any) -> Method | dict[str, Method]:
  """The method of that name, or the methods of its learners by slot.

  Args:
    name: one of `names()`.
    **hyper: its hyper-parameters; the paper's are the defaults.

  Raises:
    ValueError: unknown method or hyper-parameter, with the nearest one.
  """
  if name not in names():
    raise ValueError(choices.unknown("method", name, names()))
  make = getattr(importlib.import_module(f"{__name__}.{name}"), name)
  allowed = list(inspect.signature(make).parameters)
  for key in hyper:
    if key not in allowed:
      raise ValueError(
        choices.unknown(f"hyper-parameter of {name}", key, allowed)
      )
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
