"""Configs of comparable training runs of all methods, or rewards, on a task.

An entry is what a bake-off compares: a method or a reward. Each entry trains
with its own config. For each seed all entries start from the same supervised
policy, the base policy, and each samples the same number of completion tokens,
the budget:

  budget = steps * prompts * samples * length

The number of steps is a setting. The prompts per step and samples per prompt
are those of the config of the reference, the entry with which the others are
compared. The length is the mean number of tokens of held-out completions of the
base policy of the first seed.

A bake-off of rewards trains with GRPO. Its reference is the run whose reward is
the verdict of the task (1 right, 0 wrong). A reward's config may set options of
the task, such as a judge of reasoning steps, or further prompts for a problem.
The base policy and the held-out verdicts do not depend on these options.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Callable

import ml_collections

from experiments.cli import spec
from experiments.configs import method as method_configs
from experiments.configs import reward as reward_configs
from experiments.studies.arms import Arm, Outcome
from experiments.studies.bakeoff import method_table, reward_table
from experiments.studies.bakeoff.table import Row, make_row
from experiments.training_run import validate
from rl import UsageError, methods

# Samples per held-out problem: twice 64, so that the estimate of pass@64 is an
# average over many subsets of 64 samples.
HELD_OUT_SAMPLES = 128


@dataclasses.dataclass(frozen=True)
class Subject:
  """The kind of entries that a bake-off compares: methods or rewards.

  Attributes:
    name: name of the config file of the entries, and singular noun for them.
    configs: that file.
    family: function that returns the heading under which an entry is listed.
    reference: name of the entry with which the others are compared.
    tables: module with the functions `markdown` of a table, which returns the
      content of `bakeoff.md`, and `changes` and `notes` of a table and a row.
    folder: default of --workdir, the folder of the results.
    task: default of --task; "" if --task is required.
    steps: default of --steps.
  """

  name: str
  configs: types.ModuleType
  family: Callable[[str], str]
  reference: str
  tables: types.ModuleType
  folder: str
  task: str
  steps: int


METHODS = Subject(
  name="method",
  configs=method_configs,
  family=methods.family,
  reference="grpo",
  tables=method_table,
  folder="runs/bakeoff",
  task="",
  steps=80,  # 85 methods with 4 seeds take under two hours on two cores
)
REWARDS = Subject(
  name="reward",
  configs=reward_configs,
  family=reward_configs.family,
  reference="verdict",
  tables=reward_table,
  folder="runs/bakeoff_rewards",
  task="chain",
  steps=40,  # 45 rewards with 4 seeds take about an hour
)


@dataclasses.dataclass(frozen=True)
class Setting:
  """The settings that all entries of a bake-off share, and their configs.

  Attributes:
    subject: what is compared, `METHODS` or `REWARDS`.
    task: task with its settings.
    steps: number of training steps in the budget.
  """

  subject: Subject
  task: str
  steps: int

  @functools.cached_property
  def start(self) -> Arm:
    """The supervised training of the base policy."""
    config = method_configs.base(self.task)
    config.steps_per_dispatch = 1
    return Arm(config)

  def untrained(self) -> Arm:
    """Returns the arm that only evaluates the base policy."""
    config = self._config(self.subject.reference)
    config.steps = 0
    return Arm(config, self.start)

  def budget(self, base: Outcome) -> int:
    """Returns the number of completion tokens that each seed may sample.

    Args:
      base: outcome of `untrained`. Only its first seed is used, so that the
        budget does not depend on the number of seeds.
    """
    rollout = self._config(self.subject.reference).rollout
    length = float(base.lengths[0].mean())
    return round(self.steps * rollout.prompts * rollout.samples * length)

  def arm(self, name: str, tokens: int) -> Arm:
    """Returns the training of an entry with its own config on this task."""
    return Arm(self._config(name), self.start, tokens)

  def task_mismatch(self, name: str) -> str:
    """Returns why the entry's config is for another task; "" if it is not."""
    if self._uses_own_task(name):
      return ""
    config_task = self.subject.configs.get_config(name).task
    if spec.parse(config_task)[0] == spec.parse(self.task)[0]:
      return ""
    return f"its config is for the task {config_task}"

  def obstacle(self, name: str, tokens: int) -> str:
    """Returns why an entry cannot run on this task; "" if it can."""
    if reason := self.task_mismatch(name):
      return reason
    try:
      validate.check_and_build(self.arm(name, tokens).config)
    except UsageError as error:
      return " ".join(str(error).split())
    return ""

  def row(self, name: str, arm: Arm, outcome: Outcome) -> Row:
    """Returns the row of an entry, or of the base policy (no family)."""
    entry = spec.parse(name)[0]
    is_entry = entry in self.subject.configs.names()
    family = self.subject.family(entry) if is_entry else ""
    row = make_row(name, family, outcome)
    if self.subject is METHODS:
      return row
    return reward_table.add_rewards(row, arm.config.reward)

  def _uses_own_task(self, name: str) -> bool:
    """Returns whether an entry trains on this task without further options."""
    return self.subject is METHODS or name == self.subject.reference

  def _config(self, name: str) -> ml_collections.ConfigDict:
    """Returns the config of an entry, with the settings that all share."""
    config = self.subject.configs.get_config(name).copy_and_resolve_references()
    task = self.task
    if not self._uses_own_task(name):
      # The options of the reward's task, with the settings of the bake-off.
      task_name, settings = spec.parse(config.task)
      task = spec.write(task_name, settings | spec.parse(task)[1])
    config.base, config.model = {}, self.start.config.model
    config.task, config.steps = task, self.steps
    config.steps_per_dispatch, config.evaluation.samples = 1, HELD_OUT_SAMPLES
    return config


def make(subject: Subject, task: str, steps: int) -> Setting:
  """Makes the setting of a task and checks its base config.

  Args:
    subject: what is compared.
    task: task; a name without settings gets the default settings.
    steps: number of training steps in the budget.

  Raises:
    UsageError: the task has no base policy, or `steps` is below 1.
  """
  if steps < 1:
    raise UsageError(f"steps = {steps} must be at least 1")
  method_configs.base(task)  # raises if the task has no base policy
  name, settings = spec.parse(task)
  if not settings:
    task = method_configs.BASES[name]().task
  setting = Setting(subject, task, steps)
  validate.check_and_build(setting.start.config)
  return setting
