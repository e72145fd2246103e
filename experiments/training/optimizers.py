"""The optimisers that a config asks for, one of each learner."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections
import optax

from rl import choices, learners
from rl.minibatches import Plan

SCHEDULES = ("constant", "cosine")
_SMALLEST_EPS = 1e-30  # 0 makes a gradient of 0 an update of 0 / 0
# Of each setting the least, what it must stay below, and the nearest to that.
RANGES = {
  "learning_rate": (0.0, math.inf, 1.5e-4),
  "warmup_steps": (0, math.inf, 0),
  "decay_steps": (0, math.inf, 0),
  "final_scale": (0.0, math.inf, 0.1),
  "b1": (0.0, 1.0, 0.999),
  "b2": (0.0, 1.0, 0.999),
  "eps": (_SMALLEST_EPS, math.inf, 1e-8),
  "weight_decay": (0.0, math.inf, 0.0),
  "clip_norm": (0.0, math.inf, 1.0),
}


def by_learner(
  config: ml_collections.ConfigDict, names: Sequence[str], plan: Plan
) -> dict[str, tuple[optax.GradientTransformation, optax.Schedule]]:
  """The optimiser of every learner, and its learning rate.

  Args:
    config: `optimizer` is the policy's; `learners.SLOT` says in what that of
      another learner differs.
    names: of the learners.
    plan: of the policy.

  Raises:
    ValueError: settings for a learner that there is not, unknown ones, or
      values that they cannot have.
  """
  changes = config.get("learners") or {}
  others = [name for name in names if name != learners.POLICY]
  found = {}
  for name in changes:
    if name not in others:
      raise ValueError(
        choices.unknown(f"learner of method {config.method}", name, others)
      )
    for key in changes[name]:
      if key not in config.optimizer:
        kind = f"setting of learners.{name}"
        raise ValueError(choices.unknown(kind, key, config.optimizer))
  for name in names:
    settings = config.optimizer.to_dict() | dict(changes.get(name, {}))
    where = "optimizer" if name == learners.POLICY else f"learners.{name}"
    _check(where, settings, config.steps)
    updates = (plan if name == learners.POLICY else plan.single).updates
    found[name] = adamw(ml_collections.ConfigDict(settings), updates)
  return found


def _check(where: str, settings: Mapping[str, Any], steps: int) -> None:
  """Every value is in its range, and a cosine has steps to fall over."""
  for key, (least, below, near) in RANGES.items():
    value = settings[key]
    if isinstance(value, numbers.Real) and least <= value < below:
      continue
    limit = "finite" if below == math.inf else f"below {below:g}"
    if isinstance(value, numbers.Real) and value < least:
      near = near if key == "eps" else least
    raise ValueError(
      f"{where}.{key} = {value!r} must be at least {least:g} and {limit}; "
      f"nearest: {near:g}"
    )
  warmup, decay = settings["warmup_steps"], settings["decay_steps"]
  # A run that ends while it warms up meets no cosine.
  if settings["schedule"] == "cosine" and decay <= warmup < steps:
    raise ValueError(
      f"{where}.decay_steps = {decay}: the cosine would fall at once to "
      f"final_scale = {settings['final_scale']:g} of the rate, after "
      f"warmup_steps = {warmup}; it must be more than these; nearest useful: "
      f"{steps}, which is config.steps"
    )


def adamw(
  config: ml_collections.ConfigDict, updates: int
) -> tuple[optax.GradientTransformation, optax.Schedule]:
  """AdamW behind a clip of the global norm, and its learning rate.

  Args:
    config: of the optimiser; its schedule counts training steps whose updates
      were made.
    updates: per training step.

  Returns:
    The transformation, and the schedule `training steps done -> rate`.
  """
  if config.schedule not in SCHEDULES:
    raise ValueError(choices.unknown("schedule", config.schedule, SCHEDULES))
  rate = config.learning_rate
  if config.schedule == "constant":
    decay = optax.constant_schedule(rate)
  else:
    decay = optax.cosine_decay_schedule(
      rate, max(config.decay_steps - config.warmup_steps, 1), config.final_scale
    )
  schedule = decay
  if config.warmup_steps:
    warmup = optax.linear_schedule(0.0, rate, config.warmup_steps)
    schedule = optax.join_schedules([warmup, decay], [config.warmup_steps])
  parts = [
    optax.adamw(
      lambda count: schedule(count // updates),
      b1=config.b1,
      b2=config.b2,
      eps=config.eps,
      weight_decay=config.weight_decay,
    )
  ]
  if config.clip_norm:
    parts.insert(0, optax.clip_by_global_norm(config.clip_norm))
  return optax.chain(*parts), schedule
