"""What the claims share: base policies and sizes of their runs.

Two layers of width 64, about 100k parameters; 160 updates an arm or more. A
seed is its own base policy, training problems and samples, the same for every
arm, so arms are compared seed by seed. All are evaluated on the same 128
held-out problems with 256 samples each: intervals are of training, not of
problems.
"""

from __future__ import annotations

from typing import Any

from experiments.configs import chain as chain_configs
from experiments.configs import countdown as countdown_configs
from experiments.configs import defaults
from experiments.studies.arms import Arm

STEPS = 160
COUNTDOWN, CLOSENESS = "countdown(count=4)", "closeness(count=4)"


def countdown() -> Arm:
  """The base policy of countdown, and of what shares its problems."""
  return Arm(_sized(countdown_configs.base()))


def chain() -> Arm:
  """The base policy of chained arithmetic."""
  return Arm(_sized(chain_configs.base()))


def trained(start: Arm, task: str, method: str, **changes: Any) -> Arm:
  """Reinforcement learning from a base policy.

  Args:
    start: the base.
    task: with its settings; problems as the base's.
    method: with its settings.
    **changes: of the config, dots written as double underscores.
  """
  config = _sized(defaults.rl(steps=STEPS))
  config.model = start.config.model
  config.task, config.method = task, method
  config.update_from_flattened_dict(
    {key.replace("__", "."): value for key, value in changes.items()}
  )
  return Arm(config, start)


def untrained(start: Arm, task: str) -> Arm:
  """The base policy itself, judged by another task of its problems."""
  return trained(start, task, "rloo", steps=0)


def _sized(config):
  config.steps_per_dispatch = 1
  config.evaluation.problems = 128
  config.evaluation.samples = 256
  config.evaluation.batch = 64
  return config
