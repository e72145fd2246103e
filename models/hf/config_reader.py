"""`ConfigReader` reads a Hugging Face config; its errors name the key."""

from __future__ import annotations

from typing import Any

import transformers

from rl import registry


class ConfigReader:
  """Reads and checks the keys of a Hugging Face config.

  Args:
    config: the config, an object of the transformers library.
  """

  def __init__(self, config: transformers.PretrainedConfig) -> None:
    self._config = config

  def get(self, key: str, default: Any = None) -> Any:
    """Returns the value of a key, or `default` if it is absent or null."""
    value = getattr(self._config, key, None)
    return default if value is None else value

  def get_choice(self, key: str, names: dict[str, str]) -> str:
    """Returns our name for the value of a key.

    Args:
      key: the key.
      names: Hugging Face's names, the allowed values, to ours.

    Raises:
      ValueError: the value is not in `names`.
    """
    value = self.get(key)
    if value not in names:
      raise ValueError(
        registry.describe_unknown(f"{key} in config.json", value, names)
      )
    return names[value]

  def require(self, key: str, allowed: Any) -> None:
    """Checks that a key is absent, null or has the one supported value.

    Raises:
      ValueError: it has another value.
    """
    value = self.get(key, allowed)
    if value != allowed:
      raise ValueError(
        f"{key} = {value!r} in config.json is not supported; allowed: "
        f"{allowed!r}"
      )
