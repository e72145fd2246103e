"""Checks and makes the optimizers and learning-rate schedules of a config."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections
import optax

from rl import UsageError, learners, registry
from rl.update_plan import Plan

SCHEDULES = ("constant", "cosine", "linear")
# Setting of an optimizer -> (smallest value, exclusive upper bound, value that
# the error message suggests).
RANGES = {
  "learning_rate": (0.0, math.inf, 1.5e-4),
  "warmup_steps": (0, math.inf, 0),
  "decay_steps": (0, math.inf, 0),
  "final_scale": (0.0, math.inf, 0.1),
  "b1": (0.0, 1.0, 0.999),
  "b2": (0.0, 1.0, 0.999),
  # With eps = 0, Adam's update for a gradient of 0 would be 0 / 0.
  "eps": (1e-30, math.inf, 1e-8),
  "weight_decay": (0.0, math.inf, 0.0),
  "clip_norm": (0.0, math.inf, 1.0),
}


def check(config: ml_collections.ConfigDict, names: Sequence[str]) -> None:
  """Checks the settings of the optimizer of every learner.

  Args:
    config: config with `optimizer` and `learners`.
    names: names of the learners of its method.
  """
  changes = config.get("learners") or {}
  other_learners = [name for name in names if name != learners.POLICY]
  for name in changes:
    if name not in other_learners:
      raise UsageError(
        registry.describe_unknown(
          f"learner of method {config.method}", name, other_learners
        )
      )
    for key in changes[name]:
      if key not in config.optimizer:
        kind = f"setting of learners.{name}"
        raise UsageError(registry.describe_unknown(kind, key, config.optimizer))
  for name in names:
    where = "optimizer" if name == learners.POLICY else f"learners.{name}"
    settings = config.optimizer.to_dict() | dict(changes.get(name, {}))
    _check_settings(where, settings, config.steps)


def _check_settings(
  where: str, settings: Mapping[str, Any], steps: int
) -> None:
  """Checks the settings of one optimizer."""
  for key, (smallest, upper_bound, suggestion) in RANGES.items():
    value = settings[key]
    if isinstance(value, numbers.Real) and smallest <= value < upper_bound:
      continue
    # `where` is the key of the config that has the settings.
    limit = "finite"
    if upper_bound != math.inf:
      limit = f"below {upper_bound:g}"
    # A refused number below the upper bound is too small. The smallest eps is
    # allowed, but not useful.
    if isinstance(value, numbers.Real) and value < upper_bound and key != "eps":
      suggestion = smallest
    raise UsageError(
      f"{where}.{key} = {value!r} must be at least {smallest:g} and {limit}, "
      f"such as {suggestion:g}"
    )
  schedule = settings["schedule"]
  if schedule not in SCHEDULES:
    raise UsageError(registry.describe_unknown("schedule", schedule, SCHEDULES))
  warmup, decay = settings["warmup_steps"], settings["decay_steps"]
  # A run that ends during its warm-up never reaches the decay.
  if schedule != "constant" and decay <= warmup < steps:
    raise UsageError(
      f"{where}.decay_steps = {decay} must be more than warmup_steps = "
      f"{warmup}; otherwise the learning rate falls to final_scale = "
      f"{settings['final_scale']:g} of its peak right after the warm-up. A "
      f"usual value is {steps}, which is config.steps"
    )


def make_optimizers(
  config: ml_collections.ConfigDict, names: Sequence[str], plan: Plan
) -> dict[str, tuple[optax.GradientTransformation, optax.Schedule]]:
  """Makes the optimizer of every learner, with its learning-rate schedule.

  Args:
    config: config of the experiment. `optimizer` has the settings of the
      policy's optimizer. The optimizer of another learner has the same
      settings, except those in `learners.NAME`.
    names: names of the learners.
    plan: plan of the policy's updates. Other learners make one update per
      training step.

  Returns:
    `{learner: (optimizer, schedule)}`.
  """
  changes = config.get("learners") or {}
  optimizers = {}
  for name in names:
    settings = config.optimizer.to_dict() | dict(changes.get(name, {}))
    updates = (plan if name == learners.POLICY else plan.single).updates
    optimizers[name] = adamw(ml_collections.ConfigDict(settings), updates)
  return optimizers


def adamw(
  config: ml_collections.ConfigDict, updates: int
) -> tuple[optax.GradientTransformation, optax.Schedule]:
  """Makes AdamW, with the gradient clipped to a global norm before.

  Args:
    config: settings of the optimizer.
    updates: updates per training step.

  Returns:
    The optimizer, and its learning rate as a function of training steps. The
    optimizer's own step is its number of updates, without the skipped ones,
    divided by `updates`.
  """
  rate = config.learning_rate
  decay_steps = max(config.decay_steps - config.warmup_steps, 1)
  if config.schedule == "constant":
    decay = optax.constant_schedule(rate)
  elif config.schedule == "linear":
    decay = optax.linear_schedule(rate, rate * config.final_scale, decay_steps)
  else:
    decay = optax.cosine_decay_schedule(rate, decay_steps, config.final_scale)
  schedule = decay
  if config.warmup_steps:
    warmup = optax.linear_schedule(0.0, rate, config.warmup_steps)
    schedule = optax.join_schedules([warmup, decay], [config.warmup_steps])
  transforms = [
    optax.adamw(
      # Adam counts updates; the schedule counts training steps.
      lambda count: schedule(count // updates),
      b1=config.b1,
      b2=config.b2,
      eps=config.eps,
      weight_decay=config.weight_decay,
    )
  ]
  if config.clip_norm:
    transforms.insert(0, optax.clip_by_global_norm(config.clip_norm))
  return optax.chain(*transforms), schedule
