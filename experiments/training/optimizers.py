"""Makes the optimizers and learning-rate schedules of a config."""

from __future__ import annotations

from collections.abc import Sequence

import ml_collections
import optax

from rl import learners
from rl.minibatches import Plan

SCHEDULES = ("constant", "cosine", "linear")


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
