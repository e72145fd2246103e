"""What may stand in `NAME(setting=value)`: a factory's parameters, as annotated.

Methods, tasks, rewards and ways to sample are named like that in a config.
"""

from __future__ import annotations

import inspect
import numbers
import os
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from rl import choices

_KINDS = {
  int: numbers.Integral,
  float: numbers.Real,
  str: str | os.PathLike,
}


def check(kind: str, of: str, make: Callable, given: Mapping[str, Any]) -> None:
  """Every value is of a parameter and of its type, and none is missing.

  Args:
    kind: what a value is called, "setting".
    of: whose they are, "task 'chain'".
    make: the factory.
    given: values by parameter.

  Raises:
    ValueError: one is not; with what is allowed and the nearest.
  """
  parameters = inspect.signature(make).parameters
  names = getattr(inspect.unwrap(make), "__globals__", {})
  for key, value in given.items():
    if key not in parameters:
      raise ValueError(choices.unknown(f"{kind} of {of}", key, parameters))
    annotation = parameters[key].annotation
    if _is_of(value, _hint(annotation, names)):
      continue
    shown = inspect.formatannotation(annotation).strip("'")
    whole = isinstance(value, float) and value.is_integer()
    near = int(value) if whole else parameters[key].default
    guess = "" if near is inspect.Parameter.empty else f"; nearest: {near!r}"
    raise ValueError(f"{of}: {key} = {value!r} must be {shown}{guess}")
  for key, parameter in parameters.items():
    if parameter.default is inspect.Parameter.empty and key not in given:
      raise ValueError(f"{of} needs a value of {key!r}")


def _hint(annotation: Any, names: Mapping[str, Any]) -> Any:
  """An annotation, read where it was written; `Any` where it cannot be."""
  holder = types.SimpleNamespace(__annotations__={"value": annotation})
  try:
    return typing.get_type_hints(holder, dict(names))["value"]
  except (NameError, AttributeError, TypeError):  # of type checkers only
    return Any


def _is_of(value: Any, hint: Any) -> bool:
  """Whether a value is of an annotated type; of one not known here, True."""
  if hint in (Any, inspect.Parameter.empty):
    return True
  of, inside = typing.get_origin(hint), typing.get_args(hint)
  if of in (typing.Union, types.UnionType):
    return any(_is_of(value, one) for one in inside)
  if of is tuple:
    if not isinstance(value, tuple | list):
      return False
    if inside[-1] is ...:
      inside = inside[:1] * len(value)
    return len(value) == len(inside) and all(map(_is_of, value, inside))
  if hint is tuple:
    return isinstance(value, tuple | list)
  if hint in (int, float):
    number = isinstance(value, _KINDS[hint]) or hasattr(value, "dtype")
    return number and not isinstance(value, bool)
  hint = _KINDS.get(hint, hint)
  known = isinstance(hint, type | types.UnionType)
  return not known or isinstance(value, hint)
