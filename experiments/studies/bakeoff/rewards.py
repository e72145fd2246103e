"""Who takes part in `--rewards`: each reward's own config, at one budget.

As of `entrants`; the reference is GRPO on the verdict. A config keeps the judge
of steps and the views of its task, on which neither the base policy nor the
held-out verdict depends.
"""

from __future__ import annotations

from collections.abc import Mapping

import ml_collections
from etils import epath

from experiments.cli import config_names, spec
from experiments.configs import reward as configs
from experiments.studies.arms import Arm, Outcome, Spent
from experiments.studies.bakeoff import entrants, proxies, table

REFERENCE = "verdict"


class Setting(entrants.Setting):
  """What all share, and which rewards there are."""

  reference = REFERENCE
  kind = "rewards"
  folder = epath.Path("runs/bakeoff_rewards")
  usual_task = "chain"
  usual_steps = 40  # then 45 rewards of 4 seeds take about an hour

  @staticmethod
  def base(task: str) -> ml_collections.ConfigDict:
    """The config of the policy that a task's runs start from."""
    return configs.base(task)

  @classmethod
  def whole(cls, task: str) -> str:
    """A task, with the settings of these configs where it has none.

    Raises:
      ValueError: there is no base for it.
    """
    cls.base(task)
    name, settings = spec.parse(task)
    usual = {spec.parse(t)[0]: t for t in (configs.CHAIN, configs.CLOSENESS)}
    return task if settings else usual.get(name, task)

  @staticmethod
  def names() -> list[str]:
    """The rewards that have a config."""
    return configs.names()

  @staticmethod
  def check(name: str) -> str:
    """The name, if there is such a config.

    Raises:
      ValueError: there is none.
    """
    config_names.check("reward", name, configs.names())
    return name

  def unfit(self, name: str) -> str:
    """Why its config is not of this task; "" where it is."""
    own = self._own(name).task
    if name == REFERENCE or spec.parse(own)[0] == spec.parse(self.task)[0]:
      return ""
    return f"its config is of {own}"

  def row(
    self, name: str, arm: Arm, outcome: Outcome, spent: Spent, made: set[str]
  ) -> proxies.Row:
    """Its row of the table; the base policy's has no name to look up."""
    family = configs.family(name) if name in self.names() else ""
    own = table.row(name, family, outcome, spent, made)
    return proxies.row(own, arm.config.mix, outcome)

  def table(
    self,
    budget: int,
    base: proxies.Row,
    rows: Mapping[str, proxies.Row],
    refused: Mapping[str, str],
  ) -> proxies.Table:
    """Of the rows, the reference's among them."""
    return proxies.Table(
      self.task, budget, base, *self._split(rows), dict(refused)
    )

  def write(self, found: proxies.Table, folder: epath.PathLike) -> None:
    """The table, into a folder."""
    proxies.write(found, folder)

  def _own(self, name: str) -> ml_collections.ConfigDict:
    return configs.get_config(name)

  def _task(self, name: str, own: str) -> str:
    if name == REFERENCE:
      return self.task
    kind, settings = spec.parse(own)
    settings |= spec.parse(self.task)[1]
    return spec.write(kind, settings)
