"""Losses of process reward models, by name.

`step_losses.get("q_ranking", margin=2.0)` returns a `base.StepLoss`: how many
outputs the head has, which lines make an example, the loss, and the score of a
step. A file `NAME.py` in this folder defines the function `NAME(**settings)`,
and needs no registration.
"""

from __future__ import annotations

import inspect
import pkgutil
from typing import Any

from rewards.process.step_losses.base import StepLoss
from rl import registry


def names() -> list[str]:
  """Returns the names of all losses, sorted."""
  modules = (module.name for module in pkgutil.iter_modules(__path__))
  return sorted(name for name in modules if name != "base")


def get(name: str, /, **settings: Any) -> StepLoss:
  """Returns the loss of a name.

  Args:
    name: one of `names()`.
    **settings: arguments of its function; the others have their defaults.

  Raises:
    ValueError: the name or a setting is unknown, or the loss refuses a value.
  """
  if name not in names():
    raise ValueError(registry.describe_unknown("step loss", name, names()))
  module = registry.import_module(f"{__name__}.{name}")
  make = getattr(module, name)
  registry.check_settings("setting of step loss", name, make, settings)
  return make(**settings)


def summary(name: str) -> str:
  """Returns the first sentence of a loss's file."""
  module = registry.import_module(f"{__name__}.{name}")
  return inspect.getdoc(module).partition("\n")[0]
