"""Turns functions with hyper-parameters into factories of named objects.

The parts of a method are transforms of scores (`rl.transforms`), terms of the
loss (`rl.losses.terms`) and surrogates (`rl.losses.surrogates`). Each is a
function with keyword-only hyper-parameters. A decorator of its module calls
`factory`, which replaces the function by a *factory*, whose arguments are the
hyper-parameters: `ppo_clip(0.2, 0.28)` returns a surrogate with the name
"ppo_clip(low=0.2, high=0.28)", which `label` makes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any


def label(name: str, hyper: dict[str, Any]) -> str:
  """Returns the string "name(a=1, b=2)", without arguments that are None."""

  def show(value: Any) -> str:
    if isinstance(value, float):
      return f"{value:g}"
    if isinstance(value, tuple | list):
      return "(" + ", ".join(map(show, value)) + ")"
    return getattr(value, "__name__", None) or str(value)

  arguments = (f"{k}={show(v)}" for k, v in hyper.items() if v is not None)
  return f"{name}({', '.join(arguments)})"


def factory(fn: Callable, num_positional: int, build: Callable) -> Callable:
  """Returns a function whose parameters are the hyper-parameters of `fn`.

  Args:
    fn: function of `num_positional` positional arguments (the arrays that it
      computes with) and keyword-only hyper-parameters.
    num_positional: number of positional arguments of `fn`.
    build: function from `{hyper-parameter: value}` to the named object.

  Returns:
    The factory. It takes the hyper-parameters, by position or by keyword, and
    returns the result of `build`. It has the name and docstring of `fn`.

  Raises:
    TypeError: if a hyper-parameter of `fn` is not keyword-only.
  """
  parameters = list(inspect.signature(fn).parameters.values())[num_positional:]
  not_keyword_only = [
    p.name for p in parameters if p.kind is not p.KEYWORD_ONLY
  ]
  if not_keyword_only:
    raise TypeError(
      f"{fn.__name__}: hyper-parameters {not_keyword_only} must be "
      f"keyword-only; put `*` after the first {num_positional} arguments"
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
  """Returns what a part needs of forward passes (`rl.scoring`), as a frozenset.

  Args:
    needs: the needs, or a function of the hyper-parameters that returns them.
    hyper: the hyper-parameters.
  """
  return frozenset(needs(**hyper) if callable(needs) else needs)
