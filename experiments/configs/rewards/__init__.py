"""One experiment per reward, on an embedded task, all alike but for the reward.

The policy never sees more of the truth than the reward does, while held-out
answers are judged by the task: what was paid for against what was achieved.
The bake-off (`python -m experiments.studies.bakeoff --rewards`) trains these very
configs. Each file says its `FAMILY`, under which its row stands.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType
from typing import Any

from ml_collections import ConfigDict

from experiments.cli import spec
from experiments.configs import methods
from rl import choices

GRPO = "grpo(beta=0.0)"
CHAIN = methods.CHAIN  # its step scores are what a flawless solution writes
FILLER = "chain(operations=3, prm='filler')"  # accepts `+ 0 r ;` for ever
LOCAL = "chain(operations=3, prm='local')"  # and any running value as answer
REFERENCE = "chain(operations=3, reference=True)"  # shows the true answer
CLOSENESS = "closeness(count=4)"  # a graded score; right is an exact hit
CONTINUED = "prefix_values(continuations=4, steps=5)"
# Tasks that another's demonstrations teach.
_TAUGHT_BY = {"closeness": methods.COUNTDOWN}


def base(task: str) -> ConfigDict:
  """The imitation of the task's demonstrations that its runs start from.

  Args:
    task: with its settings, which the base policy does not depend on.

  Raises:
    ValueError: there is no base for it.
  """
  config = methods.base(_taught(task))
  config.task = task
  return config


def on_task(
  mix: ConfigDict, task: str = CHAIN, method: str = GRPO, **changes: Any
) -> ConfigDict:
  """Reinforcement learning by a reward, from the task's base policy.

  Prompts, samples and updates as of `methods.on_task`.

  Args:
    mix: what is paid, of `common.pay`.
    task: with its settings.
    method: with its hyper-parameters; one of steps where steps are paid.
    **changes: of the config, dots written as double underscores.
  """
  config = methods.on_task(method, _taught(task), **changes)
  config.task = task
  config.mix = mix
  return config


def names() -> list[str]:
  """The configs of this folder, sorted."""
  return sorted(found.name for found in pkgutil.iter_modules(__path__))


def module(name: str) -> ModuleType:
  """The file of a config.

  Raises:
    ValueError: there is none of this name.
  """
  if name not in names():
    raise ValueError(choices.unknown("reward", name, names()))
  return importlib.import_module(f"{__name__}.{name}")


def _taught(task: str) -> str:
  return _TAUGHT_BY.get(spec.parse(task)[0], task)
