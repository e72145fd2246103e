"""Label sources of process reward models, by name.

A label source labels the reasoning steps of samples without people:
`label_sources.get("monte_carlo", least=2)` is a function `forest -> Labels`. A
file `NAME.py` in this folder defines the function `NAME(**settings)` that
returns it, and needs no registration.

A label is 1 for a good step, 0 for a bad one, or a probability between. A step
of weight 0 has no label, such as the steps after an error.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable
from typing import Any

from rewards.process.forest import Forest
from rewards.process.label_sources.base import StepLabels
from rl import registry

Source = Callable[[Forest], StepLabels]


def names() -> list[str]:
  """Returns the names of all label sources, sorted."""
  modules = (module.name for module in pkgutil.iter_modules(__path__))
  return sorted(name for name in modules if name != "base")


def get(name: str, /, **settings: Any) -> Source:
  """Returns the label source of a name.

  Args:
    name: one of `names()`.
    **settings: arguments of its function; the others have their defaults.

  Raises:
    ValueError: the name or a setting is unknown, or the source refuses a value.
  """
  if name not in names():
    raise ValueError(registry.describe_unknown("label source", name, names()))
  module = registry.import_module(f"{__name__}.{name}")
  make = getattr(module, name)
  registry.check_settings("setting of label source", name, make, settings)
  return make(**settings)


def reads_judge(source: Source) -> bool:
  """Returns whether a label source asks a judge (`Forest.first_errors`)."""
  return getattr(source, "reads_judge", False)


def summary(name: str) -> str:
  """Returns the first sentence of a label source's file."""
  module = registry.import_module(f"{__name__}.{name}")
  return inspect.getdoc(module).partition("\n")[0]
