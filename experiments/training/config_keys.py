"""The keys that a config may have, with the defaults of those that it lacks.

They are those of the function of `defaults` that has the name of `config.kind`,
such as `defaults.rl()`. The lock of `ConfigDict` is not used to find misspelled
keys, because it does not check the keys of a dict that replaces another dict,
and its error neither says in which block the key stands nor suggests
`learning_rate` for `lr`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import ml_collections

from experiments.configs import defaults, renamed_keys
from rl import UsageError, registry


def check(config: ml_collections.ConfigDict) -> None:
  """Checks that every key of a config is known.

  Args:
    config: config of an experiment. Its `base`, the config of the supervised
      run that it starts from, is checked too if it is not empty.

  Raises:
    UsageError: a key is unknown. The message suggests the nearest known key.
  """
  _complete("config", config, _defaults(config))


def complete(saved: Mapping[str, Any], where: str) -> dict[str, Any]:
  """Returns a saved config with the keys of today, and defaults of new ones.

  Args:
    saved: config of a run, as JSON values.
    where: path of its file, for the message.

  Raises:
    UsageError: the config has a key that does not exist.
  """
  saved = renamed_keys.update(saved)
  try:
    return _complete("config", saved, _defaults(saved))
  except UsageError as error:
    raise UsageError(
      f"{where}: {error}. This version of the code does not have the key: "
      "rename it in the file, or delete it if the run did not depend on it"
    ) from None


def describe_unknown(where: str, key: str, known_keys: Iterable[str]) -> str:
  """Returns the error message for an unknown key.

  Args:
    where: path of its block, such as "config.rollout".
    key: the key.
    known_keys: all keys of the block.
  """
  new_key = renamed_keys.replacement(f"{where}.{key}")
  if new_key:
    return f"{where}.{key} has been replaced by {new_key}"
  return registry.describe_unknown(f"key of {where}", key, known_keys)


def _defaults(config: Mapping[str, Any]) -> dict[str, Any]:
  """Returns all keys that a config may have, also in blocks that it uses."""
  make = {
    "supervised": defaults.supervised,
    "preferences": defaults.preferences,
  }.get(config.get("kind"), defaults.rl)
  # The defaults of a schedule follow the number of steps.
  result = make(config.get("steps", 1)).to_dict()
  if config.get("base"):
    result["base"] = _defaults(config["base"])
  if config.get("judge"):
    result["judge"] = defaults.judge("", "").to_dict()
  if config.get("trip_wires"):
    result["trip_wires"] = defaults.trip_wires("").to_dict()
  for name in config.get("models") or {}:
    result["models"][name] = defaults.reward_model("").to_dict()
  return result


def _complete(
  where: str, config: Mapping[str, Any], known_keys: Mapping[str, Any]
) -> dict[str, Any]:
  """Returns nested dicts with all known keys; refuses other keys."""
  values = dict(known_keys)
  for key, value in config.items():
    if key not in known_keys:
      raise UsageError(describe_unknown(where, key, known_keys))
    values[key], default = value, known_keys[key]
    # If the default is an empty dict, its keys are names that the user chooses,
    # such as those of `learners`.
    is_block = isinstance(value, ml_collections.ConfigDict | dict)
    if is_block and isinstance(default, dict) and default:
      values[key] = _complete(f"{where}.{key}", value, default)
  return values
