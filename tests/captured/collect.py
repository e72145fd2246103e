"""Collects the calls that the test suite makes of the verifiers, as a plugin.

  PYTHONPATH=tests python -m pytest -p captured.collect \\
    tests/rewards/verifiers/test_maths.py ...

Writes `verifier_cases.json` beside this file: `{"module.function":
[arguments]}`. Calls with arguments that JSON cannot hold, long ones and slow
ones are left out.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import pathlib
import pkgutil
import time
from typing import Any

FILE = pathlib.Path(__file__).with_name("verifier_cases.json")
MOST_CASES = {"verify": 800, "obeys": 800}  # of a function of this name
MOST_CASES_OF_OTHERS = 60
MOST_CHARACTERS = 600
MOST_SECONDS = 0.5

_CASES: dict[str, dict[str, Any]] = {}


def encode(value: Any) -> Any:
  """A value as JSON; tuples and items are marked so that `decode` finds them.

  Raises:
    TypeError: JSON cannot hold it.
  """
  if value is None or type(value) in (str, int, float, bool):
    return value
  if type(value).__name__ == "Item":
    completion = value.text if value.thoughts else value.completion
    fields = (value.prompt, completion, value.reference, dict(value.meta))
    return {"item": [encode(field) for field in fields]}
  if type(value) is tuple:
    return {"tuple": [encode(part) for part in value]}
  if type(value) is list:
    return [encode(part) for part in value]
  if type(value) is dict and all(type(key) is str for key in value):
    return {"dict": {key: encode(part) for key, part in value.items()}}
  raise TypeError(type(value).__name__)


def decode(value: Any, item: type) -> Any:
  if isinstance(value, list):
    return [decode(part, item) for part in value]
  if not isinstance(value, dict):
    return value
  (kind, inside), *_ = value.items()
  if kind == "item":
    return item(*(decode(part, item) for part in inside))
  if kind == "tuple":
    return tuple(decode(part, item) for part in inside)
  return {key: decode(part, item) for key, part in inside.items()}


def _batches(args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
  """The arguments, with each item of a list of items by itself."""
  first = args[0] if args else None
  if not isinstance(first, list) or not first:
    return [args]
  if any(type(item).__name__ != "Item" for item in first):
    return [args]
  return [([item], *args[1:]) for item in first]


def _keep(
  cases: dict[str, Any],
  maximum: int,
  args: tuple[Any, ...],
  kwargs: dict[str, Any],
) -> None:
  """Keeps a call, unless there are enough or it cannot be written."""
  try:
    encoded = [encode(list(args)), {k: encode(v) for k, v in kwargs.items()}]
    text = json.dumps(encoded)
  except (TypeError, ValueError):
    return
  if len(text) <= MOST_CHARACTERS and len(cases) < maximum:
    cases[text] = encoded


def _listening(name: str, function: Any) -> Any:
  cases = _CASES.setdefault(name, {})
  maximum = MOST_CASES.get(name.rpartition(".")[-1], MOST_CASES_OF_OTHERS)

  @functools.wraps(function)
  def call(*args, **kwargs):
    started = time.perf_counter()
    result = function(*args, **kwargs)
    spent = time.perf_counter() - started
    if spent < MOST_SECONDS * max(1, len(_batches(args))):
      for batch in _batches(args):
        _keep(cases, maximum, batch, kwargs)
    return result

  return call


def _listen_to_pools() -> None:
  """Keeps the items that worker processes judge, which call nothing here."""
  from rewards.verifiers import pool

  judge = pool.Pool.__call__

  def call(self, items):
    name = ".".join(self.name.split(".")[-2:])
    if name in _CASES:
      for batch in _batches((list(items),)):
        _keep(_CASES[name], MOST_CASES["verify"], batch, {})
    return judge(self, items)

  pool.Pool.__call__ = call


def pytest_configure() -> None:
  import rewards.verifiers

  for info in pkgutil.walk_packages(
    rewards.verifiers.__path__, "rewards.verifiers."
  ):
    if "sandbox" in info.name or info.name.endswith(".pool"):
      continue
    module = importlib.import_module(info.name)
    for name, value in list(vars(module).items()):
      is_own = getattr(value, "__module__", "") == info.name
      if inspect.isfunction(value) and is_own and not name.startswith("_"):
        short = f"{info.name.rpartition('.')[-1]}.{name}"
        setattr(module, name, _listening(short, value))
  _listen_to_pools()


def pytest_unconfigure() -> None:
  results = {
    name: list(cases.values())
    for name, cases in sorted(_CASES.items())
    if cases
  }
  FILE.write_text(json.dumps(results, separators=(",", ":")) + "\n")
