"""Published methods, one short file each, found by name.

A file `rl/methods/NAME.py` holds a function `NAME(**hyper) -> Method`; adding
the file is all it takes.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from typing import Any

from rl import choices, transform
from rl.method import Method


def names() -> list[str]:
  """The methods there are, sorted."""
  return sorted(module.name for module in pkgutil.iter_modules(__path__))


def get(name: str, **hyper: Any) -> Method:
  """The method of that name.

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
  shown = transform.label(name, hyper) if hyper else name
  return dataclasses.replace(make(**hyper), name=shown)
