"""Refuses keys that no experiment reads: a typo would change nothing.

What a config may hold is what `common.rl()` or `common.supervised()` holds. A
config is an unlocked dict, so that Python says nothing of
`config.optimizer.lr = 1e-3` in its file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_collections

from experiments.configs import defaults
from rl import choices


def check(config: ml_collections.ConfigDict, where: str = "config") -> None:
  """Every key is one that is read.

  Args:
    config: of an experiment; `base`, if it has any, is another one.
    where: it stands, for the message.

  Raises:
    ValueError: an unknown key, with the nearest one.
  """
  supervised = config.get("kind") == "supervised"
  known = (defaults.supervised() if supervised else defaults.rl()).to_dict()
  _check(where, config, known)
  terms = (config.get("mix") or {}).get("terms") or {}
  for name, term in terms.items():
    _check(f"{where}.mix.terms.{name}", term, defaults.term("").to_dict())
  if config.get("base"):
    check(config.base, f"{where}.base")


def _check(
  where: str, config: Mapping[str, Any], known: Mapping[str, Any]
) -> None:
  for key, value in config.items():
    if key not in known:
      raise ValueError(choices.unknown(f"key of {where}", key, known))
    # What is empty by default has names of the user's, or is looked at later.
    if isinstance(value, ml_collections.ConfigDict) and known[key]:
      _check(f"{where}.{key}", value, known[key])
