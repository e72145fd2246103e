"""Configs of comparable training runs of all methods, on one task.

Each method trains with its own config. For each seed all methods start from the
same supervised policy, the base policy, and each samples the same number of
completion tokens, the budget:

  budget = steps * prompts * samples * length

The number of steps is a setting. The prompts per step and samples per prompt
are those of GRPO's config. The length is the mean number of tokens of held-out
completions of the base policy of the first seed.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections
from etils import epath

from experiments.cli import spec
from experiments.configs import method as method_configs
from experiments.studies.arms import Arm, Outcome, Store, TrainingCost
from experiments.studies.bakeoff import method_table
from experiments.training_run import validate
from rl import methods

REFERENCE = "grpo"
# Samples per held-out problem: twice 64, so that the estimate of pass@64 is an
# average over many subsets of 64 samples.
HELD_OUT_SAMPLES = 128
DEFAULT_STEPS = 80  # 85 methods with 4 seeds take under two hours on two cores


@dataclasses.dataclass(frozen=True)
class MethodSetting:
  """The settings that all methods of a bake-off share, and their configs.

  An entry is what a bake-off compares: here a method, in `RewardSetting` a
  reward.

  Attributes:
    task: task with its settings.
    steps: number of training steps in the budget.
    reference: name of the entry with which the others are compared.
    entry_kind: plural noun for the entries, for messages.
    default_folder: default of --workdir, the folder of the results.
    default_task: default of --task; "" if --task is required.
    default_steps: default of --steps.
  """

  task: str
  steps: int

  reference = REFERENCE
  entry_kind = "methods"
  default_folder = epath.Path("runs/bakeoff")
  default_task = ""
  default_steps = DEFAULT_STEPS

  @functools.cached_property
  def start(self) -> Arm:
    """The supervised training of the base policy."""
    config = self.base(self.task)
    config.steps_per_dispatch = 1
    return Arm(config)

  def untrained(self) -> Arm:
    """Returns the arm that only evaluates the base policy."""
    config = self._config(self.reference)
    config.steps = 0
    return Arm(config, self.start)

  def budget(self, base: Outcome) -> int:
    """Returns the number of completion tokens that each seed may sample.

    Args:
      base: outcome of `untrained`. Only its first seed is used, so that the
        budget does not depend on the number of seeds.
    """
    rollout = self._config(self.reference).rollout
    length = float(base.lengths[0].mean())
    return round(self.steps * rollout.prompts * rollout.samples * length)

  def arm(self, name: str, tokens: int) -> Arm:
    """Returns the training of a method with its own config on this task."""
    return Arm(self._config(name), self.start, tokens)

  def obstacle(self, name: str, tokens: int) -> str:
    """Returns why a method cannot run on this task; "" if it can."""
    if reason := self.task_mismatch(name):
      return reason
    try:
      validate.check_and_build(self.arm(name, tokens).config)
    except ValueError as error:
      return " ".join(str(error).split())
    return ""

  def finished(
    self, store: Store, tokens: int, seeds: Sequence[int]
  ) -> list[str]:
    """Returns the names of the methods whose seeds are all saved already."""
    return [
      name
      for name in self.names()
      if not self.task_mismatch(name)
      and not store.missing(self.arm(name, tokens), seeds)
    ]

  @staticmethod
  def base(task: str) -> ml_collections.ConfigDict:
    """Returns the config that trains the base policy of a task."""
    return method_configs.base(task)

  @classmethod
  def with_settings(cls, task: str) -> str:
    """Returns a task with the default settings if it has no settings.

    Raises:
      ValueError: the task has no base policy.
    """
    cls.base(task)
    name, settings = spec.parse(task)
    return task if settings else method_configs.BASES[name]().task

  @staticmethod
  def names() -> list[str]:
    """Returns the names of all methods."""
    return methods.names()

  @staticmethod
  def check_name(name: str) -> str:
    """Checks the name of a method and returns it.

    Raises:
      ValueError: the method is unknown.
    """
    methods.factory(name)
    return name

  def task_mismatch(self, name: str) -> str:
    """Returns why the entry's config is for another task; "" if it is not.

    The config of a method works with every task; that of a reward does not.
    """
    del name
    return ""

  def row(
    self,
    name: str,
    arm: Arm,
    outcome: Outcome,
    training_cost: TrainingCost,
    provenance: set[str],
  ) -> method_table.Row:
    """Returns the row of a method, or of the base policy (no family)."""
    del arm
    family = methods.family(name) if name in self.names() else ""
    return method_table.make_row(
      name, family, outcome, training_cost, provenance
    )

  def table(
    self,
    budget: int,
    base: method_table.Row,
    rows: Mapping[str, method_table.Row],
    not_run: Mapping[str, str],
  ) -> method_table.Table:
    """Makes the table of all finished rows, including the reference's row."""
    return method_table.Table(
      self.task, budget, base, *self._split(rows), dict(not_run)
    )

  def write(self, table: method_table.Table, folder: epath.PathLike) -> None:
    """Writes the files of a table into a folder."""
    method_table.write(table, folder)

  def _split(self, rows: Mapping[str, Any]) -> tuple[Any, list[Any]]:
    """Returns the row of the reference, and the other rows."""
    others = dict(rows)
    return others.pop(self.reference), list(others.values())

  def _config(self, name: str) -> ml_collections.ConfigDict:
    """Returns the config of an entry, with the settings that all share."""
    config = self._entry_config(name).copy_and_resolve_references()
    config.base, config.model = {}, self.start.config.model
    config.task, config.steps = self._entry_task(name, config.task), self.steps
    config.steps_per_dispatch, config.evaluation.samples = 1, HELD_OUT_SAMPLES
    return config

  def _entry_config(self, name: str) -> ml_collections.ConfigDict:
    """Returns an entry's own config, as in `experiments/configs`."""
    return method_configs.get_config(name)

  def _entry_task(self, name: str, config_task: str) -> str:
    """Returns the task that a method trains on."""
    del name, config_task
    return self.task


def make_setting(
  task: str, steps: int, setting_class: type[MethodSetting] = MethodSetting
) -> MethodSetting:
  """Makes the setting of a task and checks its base config.

  Args:
    task: task; a name without settings gets the default settings.
    steps: number of training steps in the budget.
    setting_class: class of the setting, for methods or for rewards.

  Raises:
    ValueError: the task has no base policy, or `steps` is below 1.
  """
  if steps < 1:
    raise ValueError(f"steps = {steps} must be at least 1")
  setting = setting_class(setting_class.with_settings(task), steps)
  validate.check_and_build(setting.start.config)
  return setting
