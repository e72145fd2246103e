"""Packages with a function of its own name in each file.

`label_sources` and `step_losses` of `rewards.process`, and `rewards.judged`,
are such packages: a new file needs no registration.
"""

from __future__ import annotations

import inspect
import pkgutil
import types
from collections.abc import Iterable
from typing import Any

from rl import UsageError, registry


class FunctionFiles:
  """A package with a function of its own name in each file, `NAME.py`.

  A file is registered by being there. The files in `others` have no such
  function.
  """

  def __init__(
    self, kind: str, package: str, path: Iterable[str], others: Iterable[str]
  ) -> None:
    """Reads a package.

    Args:
      kind: what a function makes, for messages.
      package: `__name__` of the package.
      path: `__path__` of the package.
      others: names of files without such a function.
    """
    self._kind, self._package, self._path = kind, package, list(path)
    self._others = frozenset(others)

  def names(self) -> list[str]:
    """Returns the names of all functions, sorted."""
    modules = {module.name for module in pkgutil.iter_modules(self._path)}
    return sorted(modules - self._others)

  def get(self, name: str, /, **settings: Any) -> Any:
    """Returns what the function of a name makes.

    Args:
      name: one of `names()`.
      **settings: arguments of the function; the others have their defaults.

    Raises:
      UsageError: the name or a setting is unknown, or the function refuses a
        value.
    """
    if name not in self.names():
      raise UsageError(
        registry.describe_unknown(self._kind, name, self.names())
      )
    make = getattr(self._module(name), name)
    registry.check_settings(f"setting of {self._kind}", name, make, settings)
    return make(**settings)

  def summary(self, name: str) -> str:
    """Returns the first sentence of a file."""
    return inspect.getdoc(self._module(name)).partition("\n")[0]

  def _module(self, name: str) -> types.ModuleType:
    return registry.import_module(f"{self._package}.{name}")
