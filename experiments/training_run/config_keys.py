"""Checks that every key of a config is known, to find misspelled keys.

The known keys are those of the function of `defaults` that has the name of
`config.kind`, such as `defaults.rl()`. The lock of `ConfigDict` is not used,
because it does not check the keys of a dict that replaces another dict, and its
error neither says in which block the key stands nor suggests `learning_rate`
for `lr`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import ml_collections

from experiments.configs import defaults, renamed_keys
from rl import UsageError, registry


def check(config: ml_collections.ConfigDict, where: str = "config") -> None:
  """Checks that every key of a config is known.

  Args:
    config: config of an experiment. Its `base`, the config of the supervised
      run that it starts from, is checked too if it is not empty.
    where: path of the config, for the message.

  Raises:
    UsageError: a key is unknown. The message suggests the nearest known key.
  """
  makers = {
    "supervised": defaults.supervised,
    "preferences": defaults.preferences,
  }
  known_keys = makers.get(config.get("kind"), defaults.rl)().to_dict()
  _check(where, config, known_keys)
  for name, model in (config.get("models") or {}).items():
    _check(f"{where}.models.{name}", model, defaults.reward_model("").to_dict())
  if config.get("base"):
    check(config.base, f"{where}.base")


def describe_unknown_key(
  where: str, key: str, known_keys: Iterable[str]
) -> str:
  """Returns the error message for an unknown key of a block.

  Args:
    where: path of the block, such as "config.rollout".
    key: the unknown key.
    known_keys: all keys of the block.
  """
  new_key = renamed_keys.replacement(f"{where}.{key}")
  if new_key:
    return f"{where}.{key} has been replaced by {new_key}"
  return registry.describe_unknown(f"key of {where}", key, known_keys)


def _check(
  where: str, config: Mapping[str, Any], known_keys: Mapping[str, Any]
) -> None:
  """Checks a dict of the config, and the dicts in it, for unknown keys."""
  for key, value in config.items():
    if key not in known_keys:
      raise UsageError(describe_unknown_key(where, key, known_keys))
    # If the default is an empty dict, its keys are names that the user chooses
    # (`learners`), or `check` calls `_check` for it (`base`, `models`).
    if isinstance(value, ml_collections.ConfigDict) and known_keys[key]:
      _check(f"{where}.{key}", value, known_keys[key])
