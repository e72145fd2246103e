"""What a method's hyper-parameters may be, by their names, types and defaults.

Types are the factory's annotations. Ranges are by name, as names mean the same
everywhere: a clip range or the weight of a penalty that is negative turns an
update around, and says nothing. Where a default lies outside of its name's
range, the name means something else there, and any value is taken.
"""

from __future__ import annotations

import inspect
import math
import numbers
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from rl import choices

NOT_NEGATIVE = (
  *("clip", "low", "high", "cap", "bound", "value_clip", "value_coef"),
  *("beta", "eps", "temperature", "positive", "negative"),
)
SHARES = ("quantile", "share", "fraction", "rho", "decay")
DISCOUNTS = ("gamma", "lam")  # else gamma is some weight
_LEAST_DISCOUNT = 0.9  # that is a default
_NUMBERS = {int: numbers.Integral, float: numbers.Real}


def check(name: str, make: Callable, given: Mapping[str, Any]) -> None:
  """Every value is of a parameter, of its type, and within its range.

  Args:
    name: of the method.
    make: its factory.
    given: values by hyper-parameter.

  Raises:
    ValueError: one is not; with what is allowed and the nearest.
  """
  parameters = inspect.signature(make).parameters
  try:
    hints = typing.get_type_hints(make)
  except (NameError, AttributeError, TypeError):  # of type checkers only
    hints = {}
  for key, value in given.items():
    if key not in parameters:
      kind = f"hyper-parameter of {name}"
      raise ValueError(choices.unknown(kind, key, parameters))
    default = parameters[key].default
    if key in hints and not _is_of(value, hints[key]):
      shown = inspect.formatannotation(parameters[key].annotation).strip("'")
      whole = isinstance(value, float) and value.is_integer()
      near = int(value) if whole else default
      guess = "" if near is inspect.Parameter.empty else f"; nearest: {near!r}"
      raise ValueError(f"{name}: {key} = {value!r} must be {shown}{guess}")
    _check_range(f"{name}: {key}", value, *_limits(key, default))


def _is_of(value: Any, hint: Any) -> bool:
  """Whether a value is of an annotated type; of one not known here, True."""
  of, inside = typing.get_origin(hint), typing.get_args(hint)
  if of in (typing.Union, types.UnionType):
    return any(_is_of(value, one) for one in inside)
  if of is tuple:
    if not isinstance(value, tuple | list):
      return False
    if inside[-1] is ...:
      inside = inside[:1] * len(value)
    return len(value) == len(inside) and all(map(_is_of, value, inside))
  if hint in _NUMBERS:
    number = isinstance(value, _NUMBERS[hint]) or hasattr(value, "dtype")
    return number and not isinstance(value, bool)
  return not isinstance(hint, type) or isinstance(value, hint)


def _limits(key: str, default: Any) -> tuple[float, float]:
  """Least and most of a hyper-parameter; infinite where it has none."""
  limits = (-math.inf, math.inf)
  numbers_there = _numbers(default)
  if key in NOT_NEGATIVE:
    limits = (0.0, math.inf)
  elif key in SHARES or (
    key in DISCOUNTS and all(d >= _LEAST_DISCOUNT for d in numbers_there)
  ):
    limits = (0.0, 1.0)
  if all(limits[0] <= d <= limits[1] for d in numbers_there):
    return limits
  return (-math.inf, math.inf)


def _numbers(value: Any) -> list[numbers.Real]:
  """The number that a value is, or those that it holds."""
  among = value if isinstance(value, tuple | list) else [value]
  return [x for x in among if isinstance(x, numbers.Real)]


def _check_range(where: str, value: Any, least: float, most: float) -> None:
  for number in _numbers(value):
    if least <= number <= most:
      continue
    if math.isnan(number):
      raise ValueError(f"{where} = {value} must be a number, not NaN")
    allowed = (
      f"at least {least:g}"
      if most == math.inf
      else (f"from {least:g} to {most:g}")
    )
    near = min(max(number, least), most)
    raise ValueError(f"{where} = {value} must be {allowed}; nearest: {near:g}")
