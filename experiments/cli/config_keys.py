"""Refuses config keys that no experiment reads, such as a misspelled one.

The known keys are those of `defaults.rl()` or `defaults.supervised()`. Configs
are not locked: a lock would not check a dict that replaces another, and its
error names neither the place of the key nor the nearest key of a short name
such as `lr`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_collections

from experiments.configs import defaults
from rl import registry


def check(config: ml_collections.ConfigDict, where: str = "config") -> None:
  """Checks that every key of a config is a key that is read.

  Args:
    config: config of an experiment; its `base`, if it has one, is checked too.
    where: name of the config, for the message.

  Raises:
    ValueError: if a key is unknown. The message names the nearest one.
  """
  supervised = config.get("kind") == "supervised"
  known_keys = (
    defaults.supervised() if supervised else defaults.rl()
  ).to_dict()
  _check(where, config, known_keys)
  terms = (config.get("mix") or {}).get("terms") or {}
  for name, term in terms.items():
    _check(f"{where}.mix.terms.{name}", term, defaults.term("").to_dict())
  if config.get("base"):
    check(config.base, f"{where}.base")


def _check(
  where: str, config: Mapping[str, Any], known_keys: Mapping[str, Any]
) -> None:
  for key, value in config.items():
    if key not in known_keys:
      raise ValueError(
        registry.describe_unknown(f"key of {where}", key, known_keys)
      )
    # A dict that is empty by default takes names of the user (`learners`), or
    # is checked by `check` (`base`, `mix.terms`).
    if isinstance(value, ml_collections.ConfigDict) and known_keys[key]:
      _check(f"{where}.{key}", value, known_keys[key])
