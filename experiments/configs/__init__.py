"""Configs of experiments, as files of this folder, and their listing."""

from __future__ import annotations

import importlib
import pkgutil

from experiments.cli import config_names

# Modules of the folder that define no config.
_NO_CONFIGS = ("defaults", "renamed_keys")


def listing() -> dict[str, str]:
  """Returns `{text after --config: phrase}` for all configs of the project."""
  phrases = {}
  for info in pkgutil.iter_modules(__path__):
    if info.name in _NO_CONFIGS:
      continue
    module = importlib.import_module(f"{__name__}.{info.name}")
    path = f"{config_names.FOLDER}/{info.name}.py"
    if hasattr(module, "names"):
      for name in module.names():
        phrases[f"{path}:{name}"] = module.summary(name)
    else:
      phrases[path] = config_names.first_sentence(module)
  return phrases
