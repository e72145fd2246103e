"""Intervals, in steps, at which a run saves, evaluates and logs."""

from __future__ import annotations

import ml_collections

from rl import UsageError


def check(config: ml_collections.ConfigDict) -> None:
  """Checks that checkpoints and evaluations are due at ends of dispatches."""
  dispatch_steps = config.steps_per_dispatch
  if dispatch_steps < 1:
    raise UsageError(
      f"steps_per_dispatch = {dispatch_steps} must be at least 1"
    )
  if config.log_every < 1:
    raise UsageError(f"log_every = {config.log_every} must be at least 1")
  for name in ("steps", "checkpoint_every", "evaluate_every", "rollouts_every"):
    if config[name] < 0:
      raise UsageError(
        f"{name} = {config[name]} must be at least 0; nearest: 0"
      )
    if config[name] % dispatch_steps:
      nearest = max(round(config[name] / dispatch_steps), 1) * dispatch_steps
      raise UsageError(
        f"{name} = {config[name]} must be a multiple of steps_per_dispatch = "
        f"{dispatch_steps}; nearest: {nearest}"
      )


def is_due(done: int, every: int) -> bool:
  """Returns whether `done` is a multiple of `every`; False if `every` is 0."""
  return bool(every) and done % every == 0
