"""The keys that a config may have, with the defaults of those that it lacks.

They are those of the function of `defaults` that has the name of `config.kind`,
such as `defaults.rl()`. The lock of `ConfigDict` is not used to find misspelled
keys, because it does not check the keys of a dict that replaces another dict,
and its error neither says in which block the key stands nor suggests
`learning_rate` for `lr`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_collections

from experiments.configs import defaults
from rl import registry
from rl.errors import UsageError


def check(config: ml_collections.ConfigDict) -> None:
  """Checks that every key of a config is known.

  Args:
    config: config of an experiment. Its `base`, the config of the supervised
      run that it starts from, is checked too if it is not empty.

  Raises:
    UsageError: a key is unknown. The message suggests the nearest known key.
  """
  _check("config", config, _defaults(config))


def complete(saved: Mapping[str, Any], where: str) -> dict[str, Any]:
  """Returns a saved config, with the defaults of the keys that it lacks.

  The run was made before these keys existed, and their defaults leave a run as
  it was.

  Args:
    saved: config of a run, as JSON values.
    where: path of its file, for the message.

  Raises:
    UsageError: the config has a key that does not exist.
  """
  all_keys = _defaults(saved)
  try:
    _check("config", saved, all_keys)
  except UsageError as error:
    raise UsageError(
      f"{where} has a key that this version of the code does not have: {error}."
      " Rename the key in the file, or delete it if the run did not depend on "
      "it; or use the version of the code that made the run"
    ) from None
  return _fill(saved, all_keys)


def _defaults(config: Mapping[str, Any]) -> dict[str, Any]:
  """Returns all keys of a config of a kind, with their defaults.

  Of the blocks that are empty by default, those that the config uses have their
  keys too.
  """
  make = {
    "supervised": defaults.supervised,
    "preferences": defaults.preferences,
  }.get(config.get("kind"), defaults.rl)
  # The defaults of a schedule follow the number of steps.
  result = make(config.get("steps", 1)).to_dict()
  if config.get("base"):
    result["base"] = _defaults(config["base"])
  judge = config.get("judge")
  if judge:
    is_policy = bool(judge.get("policy"))
    new = defaults.policy_judge("") if is_policy else defaults.judge("", "")
    result["judge"] = new.to_dict()
  if config.get("trip_wires"):
    result["trip_wires"] = defaults.trip_wires("").to_dict()
  for name in config.get("models") or {}:
    result["models"][name] = defaults.reward_model("").to_dict()
  for name in (config.get("reward") or {}).get("terms") or {}:
    result["reward"]["terms"][name] = defaults.term("").to_dict()
  return result


def _check(
  where: str, config: Mapping[str, Any], known_keys: Mapping[str, Any]
) -> None:
  """Checks a dict of the config, and the dicts in it, for unknown keys."""
  for key, value in config.items():
    if key not in known_keys:
      raise UsageError(
        registry.describe_unknown(f"key of {where}", key, known_keys)
      )
    if _has_keys(value, known_keys[key]):
      _check(f"{where}.{key}", value, known_keys[key])


def _fill(
  config: Mapping[str, Any], known_keys: Mapping[str, Any]
) -> dict[str, Any]:
  """Returns nested dicts with the keys that they lack."""
  values = {
    key: _fill(value, default)
    if _has_keys(value, default := known_keys[key])
    else value
    for key, value in config.items()
  }
  return {**known_keys, **values}


def _has_keys(value: Any, default: Any) -> bool:
  """Returns whether a value is a block whose keys are those of its default."""
  # If the default is an empty dict, its keys are names that the user chooses,
  # such as those of `learners`.
  is_block = isinstance(value, ml_collections.ConfigDict | dict)
  return is_block and isinstance(default, dict) and bool(default)
