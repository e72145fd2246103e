"""Reading a configuration of transformers, and refusing what is not ours."""

from __future__ import annotations

from typing import Any

import transformers

from rl import choices


class Reader:
  """A transformers configuration that names the key of what it refuses."""

  def __init__(self, config: transformers.PretrainedConfig) -> None:
    self._config = config

  def __call__(self, key: str, default: Any = None) -> Any:
    """The value of a key; `default` where it is absent or null."""
    found = getattr(self._config, key, None)
    return default if found is None else found

  def choice(self, key: str, allowed: dict[str, str]) -> str:
    """What the value of a key is called here."""
    name = self(key)
    if name not in allowed:
      raise ValueError(choices.unknown(f"{key} in config.json", name, allowed))
    return allowed[name]

  def only(self, key: str, allowed: Any) -> None:
    """Refuses a key that is there with another value than the allowed one."""
    found = self(key, allowed)
    if found != allowed:
      raise ValueError(
        f"{key} = {found!r} in config.json is not supported; allowed: "
        f"{allowed!r}"
      )
