"""Who takes part: each method's own config, on one task, at one budget.

All start from the same supervised policy, seed by seed, and sample the same
number of completion tokens: steps x prompts x samples of GRPO, times the mean
length of what the base policy of the first seed writes on held-out problems.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections
from etils import epath

from experiments.cli import spec
from experiments.configs import method as configs
from experiments.studies.arms import Arm, Outcome, Spent, Store
from experiments.studies.bakeoff import table
from experiments.training import validate
from rl import methods

REFERENCE = "grpo"
SAMPLES = 128  # of each held-out problem, so that pass@64 is no extreme
STEPS = 80  # then 85 methods of 4 seeds stay under two hours on two cores


@dataclasses.dataclass(frozen=True)
class Setting:
  """What all share, and who they are.

  Attributes:
    task: with its settings.
    steps: of the reference at the base policy's length.
    reference: whom all others are compared with.
    kind: what takes part, for messages.
    folder: where it is written, if nobody says.
    usual_task, usual_steps: if nobody says; "" where somebody must.
  """

  task: str
  steps: int

  reference = REFERENCE
  kind = "methods"
  folder = epath.Path("runs/bakeoff")
  usual_task = ""
  usual_steps = STEPS

  @functools.cached_property
  def start(self) -> Arm:
    """The supervised policy that all start from."""
    config = self.base(self.task)
    config.steps_per_dispatch = 1
    return Arm(config)

  def untrained(self) -> Arm:
    """The base policy itself, evaluated."""
    config = self._config(self.reference)
    config.steps = 0
    return Arm(config, self.start)

  def budget(self, base: Outcome) -> int:
    """Completion tokens of each seed, the same for all.

    Args:
      base: the outcome of `untrained`; its first seed counts, so that further
        seeds change nothing.
    """
    rollout = self._config(self.reference).rollout
    length = float(base.lengths[0].mean())
    return round(self.steps * rollout.prompts * rollout.samples * length)

  def arm(self, name: str, tokens: int) -> Arm:
    """Its own config, on this task."""
    return Arm(self._config(name), self.start, tokens)

  def obstacle(self, name: str, tokens: int) -> str:
    """Why it cannot run on this task; "" where it can."""
    if why := self.unfit(name):
      return why
    try:
      validate.check_and_build(self.arm(name, tokens).config)
    except ValueError as error:
      return " ".join(str(error).split())
    return ""

  def finished(
    self, store: Store, tokens: int, seeds: Sequence[int]
  ) -> list[str]:
    """Those whose seeds are all there."""
    return [
      name
      for name in self.names()
      if not self.unfit(name)
      and not store.missing(self.arm(name, tokens), seeds)
    ]

  @staticmethod
  def base(task: str) -> ml_collections.ConfigDict:
    """The config of the policy that a task's runs start from."""
    return configs.base(task)

  @classmethod
  def whole(cls, task: str) -> str:
    """A task, with the settings of its base where it has none.

    Raises:
      ValueError: there is no base for it.
    """
    cls.base(task)
    name, settings = spec.parse(task)
    return task if settings else configs.BASES[name]().task

  @staticmethod
  def names() -> list[str]:
    """Who could take part."""
    return methods.names()

  @staticmethod
  def check(name: str) -> str:
    """The name, if there is one like it.

    Raises:
      ValueError: there is none.
    """
    methods.factory(name)
    return name

  def unfit(self, name: str) -> str:
    """Why its config is not of this task; "" where it is."""
    del name
    return ""

  def row(
    self, name: str, arm: Arm, outcome: Outcome, spent: Spent, made: set[str]
  ) -> table.Row:
    """Its row of the table; the base policy's has no name to look up."""
    del arm
    family = methods.family(name) if name in self.names() else ""
    return table.row(name, family, outcome, spent, made)

  def table(
    self,
    budget: int,
    base: table.Row,
    rows: Mapping[str, table.Row],
    refused: Mapping[str, str],
  ) -> table.Table:
    """Of the rows, the reference's among them."""
    return table.Table(
      self.task, budget, base, *self._split(rows), dict(refused)
    )

  def write(self, found: table.Table, folder: epath.PathLike) -> None:
    """The table, into a folder."""
    table.write(found, folder)

  def _split(self, rows: Mapping[str, Any]) -> tuple[Any, list[Any]]:
    """The reference's row, and the others."""
    others = dict(rows)
    return others.pop(self.reference), list(others.values())

  def _config(self, name: str) -> ml_collections.ConfigDict:
    config = self._own(name).copy_and_resolve_references()
    config.base, config.model = {}, self.start.config.model
    config.task, config.steps = self._task(name, config.task), self.steps
    config.steps_per_dispatch, config.evaluation.samples = 1, SAMPLES
    return config

  def _own(self, name: str) -> ml_collections.ConfigDict:
    return configs.get_config(name)

  def _task(self, name: str, own: str) -> str:
    """The task that its config says, as this setting has it."""
    del name, own
    return self.task


def setting(task: str, steps: int, kind: type[Setting] = Setting) -> Setting:
  """The setting of a task; a bare name has the settings of its base.

  Raises:
    ValueError: a task without a base policy, or steps below 1.
  """
  if steps < 1:
    raise ValueError(f"steps = {steps} must be at least 1")
  found = kind(kind.whole(task), steps)
  validate.check_and_build(found.start.config)
  return found
