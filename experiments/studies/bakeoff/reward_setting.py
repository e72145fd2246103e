"""Configs of comparable training runs of all rewards, on one task.

The base policy and the budget are those of `method_setting`, but each run
trains with GRPO and the config of one reward. The reference is the run whose
reward is the verdict of the task (1 right, 0 wrong). A reward's config may set
options of the task, such as a judge of reasoning steps, or further prompts for
a problem. The base policy and the held-out verdicts do not depend on these
options.
"""

from __future__ import annotations

from collections.abc import Mapping

import ml_collections
from etils import epath

from experiments.cli import config_names, spec
from experiments.configs import reward as reward_configs
from experiments.studies.arms import Arm, Outcome, TrainingCost
from experiments.studies.bakeoff import (
  method_setting,
  method_table,
  reward_table,
)

REFERENCE = "verdict"


class RewardSetting(method_setting.MethodSetting):
  """The settings that all rewards of a bake-off share, and their configs."""

  reference = REFERENCE
  entry_kind = "rewards"
  default_folder = epath.Path("runs/bakeoff_rewards")
  default_task = "chain"
  default_steps = 40  # 45 rewards with 4 seeds take about an hour

  @staticmethod
  def base(task: str) -> ml_collections.ConfigDict:
    """Returns the config that trains the base policy of a task."""
    return reward_configs.base(task)

  @classmethod
  def with_settings(cls, task: str) -> str:
    """Returns a task with the reward configs' settings if it has none.

    Raises:
      ValueError: the task has no base policy.
    """
    cls.base(task)
    name, settings = spec.parse(task)
    default_tasks = {
      spec.parse(t)[0]: t
      for t in (reward_configs.CHAIN, reward_configs.CLOSENESS)
    }
    return task if settings else default_tasks.get(name, task)

  @staticmethod
  def names() -> list[str]:
    """Returns the names of the rewards that have a config."""
    return reward_configs.names()

  @staticmethod
  def check_name(name: str) -> str:
    """Checks the name of a reward's config and returns it.

    Raises:
      ValueError: no config has this name.
    """
    config_names.check("reward", name, reward_configs.names())
    return name

  def task_mismatch(self, name: str) -> str:
    """Returns why a reward's config is for another task; "" if it is not."""
    config_task = self._entry_config(name).task
    if (
      name == REFERENCE
      or spec.parse(config_task)[0] == spec.parse(self.task)[0]
    ):
      return ""
    return f"its config is for the task {config_task}"

  def row(
    self,
    name: str,
    arm: Arm,
    outcome: Outcome,
    training_cost: TrainingCost,
    provenance: set[str],
  ) -> reward_table.Row:
    """Returns the row of a reward, or of the base policy (no family)."""
    family = reward_configs.family(name) if name in self.names() else ""
    shared = method_table.make_row(
      name, family, outcome, training_cost, provenance
    )
    return reward_table.make_row(shared, arm.config.reward, outcome)

  def table(
    self,
    budget: int,
    base: reward_table.Row,
    rows: Mapping[str, reward_table.Row],
    not_run: Mapping[str, str],
  ) -> reward_table.Table:
    """Makes the table of all finished rows, including the reference's row."""
    return reward_table.Table(
      self.task, budget, base, *self._split(rows), dict(not_run)
    )

  def _entry_config(self, name: str) -> ml_collections.ConfigDict:
    return reward_configs.get_config(name)

  def _entry_task(self, name: str, config_task: str) -> str:
    """Returns the task of a reward's config with the bake-off's settings."""
    if name == REFERENCE:
      return self.task
    task_name, settings = spec.parse(config_task)
    settings |= spec.parse(self.task)[1]
    return spec.write(task_name, settings)
