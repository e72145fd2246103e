"""Records every config as JSON, without the printed form of its method."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

from captured import code


def items() -> dict[str, Callable[[], dict[str, Any]]]:
  return {
    f"config:{name}": functools.partial(_resolved, make)
    for name, make in code.configs().items()
  }


def _resolved(make: Callable) -> dict[str, Any]:
  """Every leaf of the config by its dotted key."""
  config = make().copy_and_resolve_references()
  # A config without this key is older than the new names.
  name_of = code.recorded_config_key if "verifier" in config else str
  return {
    name_of(key): json.loads(json.dumps(value))
    for key, value in _leaves(config.to_dict()).items()
  }


def _leaves(config: dict[str, Any], path: str = "") -> dict[str, Any]:
  results = {}
  for key, value in config.items():
    dotted = f"{path}.{key}" if path else str(key)
    if isinstance(value, dict) and value:
      results |= _leaves(value, dotted)
    else:
      results[dotted] = value
  return results
