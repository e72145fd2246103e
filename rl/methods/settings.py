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
  parameters = named(make)
  every = inspect.signature(make).parameters.values()
  takes_any = any(one.kind is one.VAR_KEYWORD for one in every)
  names = getattr(inspect.unwrap(make), "__globals__", {})
  for key, value in given.items():
    if key in parameters:
      _check_type(f"{of}: {key}", value, parameters[key], names)
    elif not takes_any:
      raise ValueError(choices.unknown(f"{kind} of {of}", key, parameters))
  for key, parameter in parameters.items():
    if key not in given and parameter.default is parameter.empty:
      raise ValueError(f"{of} needs a value of {key!r}")


def named(make: Callable) -> dict[str, inspect.Parameter]:
  """The parameters that a factory names, without its `*args` and `**kwargs`."""
  return {
    key: one
    for key, one in inspect.signature(make).parameters.items()
    if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
  }


def _check_type(
  where: str, value: Any, parameter: inspect.Parameter, names: Mapping[str, Any]
) -> None:
  annotation = parameter.annotation
  if _is_of(value, _hint(annotation, names)):
    return
  shown = inspect.formatannotation(annotation).strip("'")
  whole = isinstance(value, float) and value.is_integer()
  near = int(value) if whole else parameter.default
  guess = "" if near is parameter.empty else f"; nearest: {near!r}"
  raise ValueError(f"{where} = {value!r} must be {shown}{guess}")


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
