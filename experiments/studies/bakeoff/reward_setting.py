"""Makes comparable training runs of all rewards, for one task and one budget.

As in `method_setting`, but each run trains GRPO with the config of one reward.
The reference is GRPO with the verdict of the task as its reward. A reward's
config may set options of the task, such as a judge of steps or further views of
a problem. The base policy and the held-out verdict do not depend on them.
"""

from __future__ import annotations

from collections.abc import Mapping

import ml_collections
from etils import epath

from experiments.cli import config_names, spec
from experiments.configs import reward as reward_configs
from experiments.studies.arms import Arm, Outcome, Spent
from experiments.studies.bakeoff import (
  method_setting,
  method_table,
  reward_table,
)

REFERENCE = "verdict"


class RewardSetting(method_setting.MethodSetting):
  """Settings that all rewards of a bake-off share, and the list of rewards."""

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
    """Adds the settings of the reward configs to a task without settings.

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
    """Returns the name of a reward config.

    Raises:
      ValueError: there is no such config.
    """
    config_names.check("reward", name, reward_configs.names())
    return name

  def task_mismatch(self, name: str) -> str:
    """Returns why a reward's config is for another task, or ""."""
    config_task = self._entry_config(name).task
    if (
      name == REFERENCE
      or spec.parse(config_task)[0] == spec.parse(self.task)[0]
    ):
      return ""
    return f"its config is of {config_task}"

  def row(
    self,
    name: str,
    arm: Arm,
    outcome: Outcome,
    spent: Spent,
    provenance: set[str],
  ) -> reward_table.Row:
    """Returns the row of a reward, or of the base policy, which has no family."""
    family = reward_configs.family(name) if name in self.names() else ""
    shared = method_table.make_row(name, family, outcome, spent, provenance)
    return reward_table.make_row(shared, arm.config.mix, outcome)

  def table(
    self,
    budget: int,
    base: reward_table.Row,
    rows: Mapping[str, reward_table.Row],
    refused: Mapping[str, str],
  ) -> reward_table.Table:
    """Makes the table of all rows, including that of the reference."""
    return reward_table.Table(
      self.task, budget, base, *self._split(rows), dict(refused)
    )

  def write(self, table: reward_table.Table, folder: epath.PathLike) -> None:
    """Writes the files of a table into a folder."""
    reward_table.write(table, folder)

  def _entry_config(self, name: str) -> ml_collections.ConfigDict:
    return reward_configs.get_config(name)

  def _entry_task(self, name: str, config_task: str) -> str:
    """Returns the task of a reward's config, with the settings of this task."""
    if name == REFERENCE:
      return self.task
    task_name, settings = spec.parse(config_task)
    settings |= spec.parse(self.task)[1]
    return spec.write(task_name, settings)
