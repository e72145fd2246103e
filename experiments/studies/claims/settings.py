"""Base policies and sizes of runs that the claims share.

The model has two layers of width 64, about 100k parameters. Every trained arm
makes at least 160 updates (optimizer steps). The seed determines the base
policy, the training problems and the samples. Arms with the same seed share the
base policy and the training problems, so arms are compared seed by seed. All
arms and seeds are evaluated on the same 128 held-out problems with 256 samples
each; intervals therefore express the variation over training seeds, not over
problems.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.configs import chain, countdown, defaults
from experiments.studies.arms import Arm

STEPS = 160  # training steps of an arm with one update per batch
COUNTDOWN, CLOSENESS = "countdown(count=4)", "closeness(count=4)"


def countdown_base() -> Arm:
  """Returns the arm of the base policy for countdown and closeness."""
  return Arm(_sized(countdown.base()))


def chain_base(operations: int = 3) -> Arm:
  """Returns the arm of the base policy for chained arithmetic."""
  config = _sized(chain.base())
  config.task = f"chain(operations={operations})"
  return Arm(config)


def trained(
  start: Arm, task: str, method: str, changes: Mapping[str, Any] | None = None
) -> Arm:
  """Returns an arm that trains a base policy with RL.

  Args:
    start: arm of the base policy.
    task: task with its settings, for example "countdown(count=4)". Its prompts
      have to be those of the base policy's task.
    method: method with its settings, for example "pass_at_k(k=8)".
    changes: values of other config keys, such as `{"plan.epochs": 4}`.
  """
  config = _sized(defaults.rl(steps=STEPS))
  config.model = start.config.model
  config.task, config.method = task, method
  config.update_from_flattened_dict(changes or {})
  return Arm(config, start)


def untrained(start: Arm, task: str) -> Arm:
  """Returns an arm that evaluates the base policy on a task."""
  # With 0 steps the method has no influence.
  return trained(start, task, "rloo", {"steps": 0})


def _sized(config):
  """Sets the sizes of the held-out evaluation, and one step per dispatch."""
  config.steps_per_dispatch = 1
  config.evaluation.problems = 128
  config.evaluation.samples = 256
  config.evaluation.batch = 64
  return config
