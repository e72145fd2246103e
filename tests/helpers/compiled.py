"""Compiles each call of a module's functions, as a training step would.

Outside of `jax.jit`, every operation is a program of its own, which takes about
14 ms to compile for each new shape.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

_ARRAYS = (np.ndarray, np.generic, jax.Array)


def functions(module: types.ModuleType) -> types.SimpleNamespace:
  """Returns the contents of a module, with its own functions compiled.

  A test file of functions of arrays writes `votes = compiled.functions(votes)`
  after its imports.
  """
  return types.SimpleNamespace(
    **{
      name: _compile_calls(value)
      if inspect.isfunction(value) and value.__module__ == module.__name__
      else value
      for name, value in vars(module).items()
    }
  )


def _compile_calls(function: Callable) -> Callable:
  """Returns the function, with one program for each of its signatures.

  Arrays are traced, also those in a pytree; all other arguments are static.
  """

  @functools.partial(jax.jit, static_argnums=(0, 1))
  def run(structure, static, arrays):
    arrays = iter(arrays)
    leaves = [next(arrays) if kind is None else leaf for kind, leaf in static]
    args, kwargs = jax.tree.unflatten(structure, leaves)
    return function(*args, **kwargs)

  @functools.wraps(function)
  def call(*args: Any, **kwargs: Any) -> Any:
    leaves, structure = jax.tree.flatten((args, kwargs))
    arrays = [leaf for leaf in leaves if isinstance(leaf, _ARRAYS)]
    # With its type, because 1 and 1.0 are equal.
    static = tuple(
      (None, None) if isinstance(leaf, _ARRAYS) else (type(leaf), leaf)
      for leaf in leaves
    )
    return run(structure, static, arrays)

  return call
