"""What a method's hyper-parameters may be, by their types, names and defaults.

Ranges are by name, as names mean the same everywhere: a clip range or the weight of a penalty that is negative turns an
update around, and says nothing. Where a default lies outside of its name's
range, the name means something else there, and any value is taken.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any

from rl.methods import settings

NOT_NEGATIVE = (
  *("clip", "low", "high", "cap", "bound", "value_clip", "value_coef"),
  *("beta", "eps", "temperature", "positive", "negative"),
)
SHARES = ("quantile", "share", "fraction", "rho", "decay")
DISCOUNTS = ("gamma", "lam")  # else gamma is some weight
_LEAST_DISCOUNT = 0.9  # that is a default


def check(name: str, make: Callable, given: Mapping[str, Any]) -> None:
  """Every value is of a parameter, of its type, and within its range.

  Args:
    name: of the method.
    make: its factory.
    given: values by hyper-parameter.

  Raises:
    ValueError: one is not; with what is allowed and the nearest.
  """
  settings.check("hyper-parameter", name, make, given)
  for key, parameter in settings.named(make).items():
    if key in given:
      limits = _limits(key, parameter.default)
      _check_range(f"{name}: {key}", given[key], *limits)


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
