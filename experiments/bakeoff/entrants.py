"""Who takes part: each method's own config, on one task, at one budget.

All start from the same supervised policy, seed by seed, and sample the same
number of completion tokens: steps x prompts x samples of GRPO, times the mean
length of what the base policy of the first seed writes on held-out problems.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
from collections.abc import Sequence

import ml_collections

from experiments import build, spec
from experiments.arms import Arm, Outcome, Store
from experiments.configs import methods as configs
from rl import methods

REFERENCE = "grpo"
SAMPLES = 128  # of each held-out problem, so that pass@64 is no extreme
STEPS = 80  # then 85 methods of 4 seeds stay under two hours on two cores


@dataclasses.dataclass(frozen=True)
class Setting:
  """What all share.

  Attributes:
    task: with its settings.
    steps: of GRPO at the base policy's length.
  """

  task: str
  steps: int

  @functools.cached_property
  def start(self) -> Arm:
    """The supervised policy that all start from."""
    config = configs.base(self.task)
    config.steps_per_dispatch = 1
    return Arm(config)

  def untrained(self) -> Arm:
    """The base policy itself, evaluated."""
    config = self._config(REFERENCE)
    config.steps = 0
    return Arm(config, self.start)

  def budget(self, base: Outcome) -> int:
    """Completion tokens of each seed, the same for every method.

    Args:
      base: the outcome of `untrained`; its first seed counts, so that further
        seeds change nothing.
    """
    rollout = self._config(REFERENCE).rollout
    length = float(base.lengths[0].mean())
    return round(self.steps * rollout.prompts * rollout.samples * length)

  def arm(self, name: str, tokens: int) -> Arm:
    """A method's own config, on this task."""
    return Arm(self._config(name), self.start, tokens)

  def _config(self, name: str) -> ml_collections.ConfigDict:
    module = importlib.import_module(f"{configs.__name__}.{name}")
    config = module.get_config().copy_and_resolve_references()
    config.base, config.model = {}, self.start.config.model
    config.task, config.steps = self.task, self.steps
    config.steps_per_dispatch, config.evaluation.samples = 1, SAMPLES
    return config


def setting(task: str, steps: int) -> Setting:
  """The setting of a task; a bare name has the settings of its base.

  Raises:
    ValueError: a task without a base policy, or steps below 1.
  """
  if steps < 1:
    raise ValueError(f"steps = {steps} must be at least 1")
  name, settings = spec.parse(task)
  if not settings:
    configs.base(task)
    task = configs.BASES[name].get_config().task
  found = Setting(task, steps)
  build.build(found.start.config)
  return found


def check(name: str) -> str:
  """The name, if there is such a method.

  Raises:
    ValueError: there is none.
  """
  methods.factory(name)
  return name


def obstacle(setting: Setting, name: str, tokens: int) -> str:
  """Why a method cannot run on this task; "" where it can."""
  if not _has_config(name):
    return f"there is no experiments/configs/methods/{name}.py"
  try:
    build.build(setting.arm(name, tokens).config)
  except ValueError as error:
    return " ".join(str(error).split())
  return ""


def finished(
  setting: Setting, store: Store, tokens: int, seeds: Sequence[int]
) -> list[str]:
  """The methods whose seeds are all there."""
  return [
    name
    for name in methods.names()
    if _has_config(name) and not store.missing(setting.arm(name, tokens), seeds)
  ]


def _has_config(name: str) -> bool:
  return importlib.util.find_spec(f"{configs.__name__}.{name}") is not None
