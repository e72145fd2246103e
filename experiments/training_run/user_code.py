"""Finds the files of the code that a config names.

When this code raises an exception, a command shows the innermost line in one of
these files (`experiments.cli.errors`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import ml_collections

import rewards
from experiments import tasks
from experiments.cli import spec
from experiments.training import reward_from_config
from rl import UsageError, methods, registry


def source_files(config: ml_collections.ConfigDict) -> frozenset[str]:
  """Returns the files of the method, reward, task and verifier of a config.

  A name that cannot be found is left out; the check of the config refuses it.
  """
  files = set()
  for factory_of, text in _names(config):
    with contextlib.suppress(UsageError):
      name, _ = spec.parse(text)
      files.add(registry.source_file(factory_of(name)))
  if config.get("verifier"):
    with contextlib.suppress(UsageError):
      function = registry.load("verifier", config.verifier)
      files.add(registry.source_file(function))
  return frozenset(files - {""})


def _names(
  config: ml_collections.ConfigDict,
) -> Iterator[tuple[Callable[[str], Callable], str]]:
  """Yields pairs of a registry's function and a call that it looks up."""
  yield tasks.factory, config.task
  if config.kind == "rl":
    yield methods.factory, config.method
    for call in reward_from_config.calls(config):
      yield rewards.factory, call
