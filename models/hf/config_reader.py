"""`ConfigReader`, which reads keys of a Hugging Face config and checks them."""

from __future__ import annotations

from typing import Any

import transformers

from rl import UsageError, registry


class ConfigReader:
  """Reads and checks keys of a Hugging Face config; its errors name the key.

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
    """Returns the name that `ModelConfig` has for the value of a key.

    Args:
      key: the key.
      names: names of `ModelConfig` by Hugging Face's name; the latter are the
        allowed values.

    Raises:
      UsageError: the value is not in `names`.
    """
    value = self.get(key)
    registry.check_known(f"{key} in config.json", value, names)
    return names[value]

  def require(self, key: str, allowed: Any) -> None:
    """Checks that a key is absent, null or has the one supported value.

    Raises:
      UsageError: the key has another value.
    """
    value = self.get(key, allowed)
    if value != allowed:
      raise UsageError(
        f"{key} = {value!r} in config.json is not supported; it must be "
        f"{allowed!r}"
      )
