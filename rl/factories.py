"""From a plain function to a factory of named things.

Transforms, terms and surrogates are written as functions with keyword-only
hyper-parameters, and used as calls that give those: `ppo_clip(0.2, 0.28)`. What
a call gives is named by what was asked for: "ppo_clip(low=0.2, high=0.28)".
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any


def label(name: str, hyper: dict[str, Any]) -> str:
  """`name(a=1, b=2)`, leaving out what is None."""

  def show(value: Any) -> str:
    if isinstance(value, bool | str):
      return str(value)
    if isinstance(value, float):
      return f"{value:g}"
    if isinstance(value, tuple | list):
      return "(" + ", ".join(map(show, value)) + ")"
    return getattr(value, "__name__", None) or str(value)

  shown = (f"{k}={show(v)}" for k, v in hyper.items() if v is not None)
  return f"{name}({', '.join(shown)})"


def factory(fn: Callable, context: int, build: Callable) -> Callable:
  """A function whose parameters are the keyword-only ones of `fn`.

  Args:
    fn: takes `context` positional arguments, then keyword-only
      hyper-parameters.
    context: number of positional arguments of `fn`.
    build: `{hyper-parameter: value} -> result`.

  Returns:
    `factory(*hyper, **hyper) -> result`, with the name, docstring and
    signature of the hyper-parameters.

  Raises:
    TypeError: `fn` has hyper-parameters that are not keyword-only.
  """
  parameters = list(inspect.signature(fn).parameters.values())[context:]
  loose = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
  if loose:
    raise TypeError(
      f"{fn.__name__}: hyper-parameters {loose} must be keyword-only; put `*` "
      f"after the first {context} arguments"
    )
  signature = inspect.Signature(
    [p.replace(kind=p.POSITIONAL_OR_KEYWORD) for p in parameters]
  )

  @functools.wraps(fn)
  def make(*args, **kwargs):
    try:
      bound = signature.bind(*args, **kwargs)
    except TypeError as error:
      raise TypeError(f"{fn.__name__}{signature}: {error}") from None
    bound.apply_defaults()
    return build(dict(bound.arguments))

  make.__signature__ = signature
  return make


def resolve_needs(needs: Iterable | Callable, hyper: dict) -> frozenset:
  """Needs given as a set, or as a function of the hyper-parameters."""
  return frozenset(needs(**hyper) if callable(needs) else needs)
