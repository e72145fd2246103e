"""The optimisers that a config asks for, one of each learner."""

from __future__ import annotations

from collections.abc import Sequence

import ml_collections
import optax

from rl import choices, learners, step

SCHEDULES = ("constant", "cosine")


def by_learner(
  config: ml_collections.ConfigDict, names: Sequence[str], plan: step.Plan
) -> dict[str, tuple[optax.GradientTransformation, optax.Schedule]]:
  """The optimiser of every learner, and its learning rate.

  Args:
    config: `optimizer` is the policy's; `learners.SLOT` says in what that of
      another learner differs.
    names: of the learners.
    plan: of the policy.

  Raises:
    ValueError: settings for a learner that there is not, or unknown ones.
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
    updates = (plan if name == learners.POLICY else plan.single).updates
    found[name] = adamw(ml_collections.ConfigDict(settings), updates)
  return found


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
