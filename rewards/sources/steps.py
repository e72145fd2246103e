"""Scores of steps: one for a sample, or others in place of the task's."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rewards import progress, step_count, turns
from rewards.process import metrics as steps_to_one
from rewards.sources import reading
from rl import types
from rl.transforms import Transform, lift, transform

Array = jax.Array


def _of_steps(fn: Callable) -> Callable[..., Transform]:
  """One score of the task's step scores, 0 of no step."""

  def of_steps(_, rollout: types.Rollout) -> Array:
    scores, mask = reading.steps(rollout)
    return jnp.where(mask.any(-1), fn(scores, mask), 0.0)

  return transform("none", "sample")(reading.named(of_steps, fn))


worst_step = _of_steps(steps_to_one.worst_step)
mean_step = _of_steps(steps_to_one.mean_step)
last_step = _of_steps(steps_to_one.last_step)


@transform("none", "sample")
def step_product(_, rollout: types.Rollout) -> Array:
  """prod_k p_k, p = (score + 1) / 2: it falls with every step; 0 of none."""
  mask = reading.step_mask(rollout)
  product = jnp.prod(jnp.where(mask, reading.chances(rollout), 1.0), -1)
  return jnp.where(mask.any(-1), product, 0.0)


nonlinear = lift(
  step_count.nonlinear,
  "none",
  "sample",
  probabilities=reading.chances,
  step_mask=reading.step_mask,
)
weibull = lift(
  step_count.weibull,
  "none",
  "sample",
  probabilities=reading.chances,
  step_mask=reading.step_mask,
)


# Rewards of steps: in place of the task's step scores.


def _before(rollout: types.Rollout) -> Array:
  """The chance of success before each step: the prompt's, then the steps'."""
  values = rollout.extras[reading.VALUES]
  first = rollout.extras[reading.PROMPT_VALUES][..., None, None]
  first = jnp.broadcast_to(first, (*values.shape[:2], 1))
  return jnp.concatenate([first, values[..., :-1]], -1)


gains = lift(
  progress.gains,
  "none",
  "step",
  needs=(reading.VALUES, reading.PROMPT_VALUES),
  after=reading.of(reading.VALUES),
  before=lambda rollout: rollout.extras[reading.PROMPT_VALUES][:, None],
  mask=reading.step_mask,
)


@transform("none", "step", needs=(reading.VALUES, reading.PROMPT_VALUES))
def significant_gains(
  _,
  rollout: types.Rollout,
  *,
  threshold: float = 0.1,
  gamma: float = 0.9,
  look_ahead: int = 3,
) -> Array:
  """`progress.significant_gains` of the chance of success (VSRM)."""
  mask = rollout.valid("step")
  first = rollout.extras[reading.PROMPT_VALUES][:, None]
  gain = progress.gains(rollout.extras[reading.VALUES], first, mask)
  return progress.significant_gains(gain, mask, threshold, gamma, look_ahead)


information_gain = lift(
  turns.information_gain,
  "none",
  "step",
  needs=(reading.VALUES, reading.PROMPT_VALUES),
  before=_before,
  mask=reading.step_mask,
  outcomes=lambda rollout: rollout.scores,
)
normalized_steps = lift(
  turns.normalize_in_group,
  "none",
  "step",
  rewards=lambda rollout: reading.steps(rollout)[0],
  mask=reading.step_mask,
)


@transform("none", "step")
def outcome_centered(_, rollout: types.Rollout, *, beta: float = 1.0) -> Array:
  """`turns.outcome_centered` of the step scores as probabilities (ReNorm)."""
  right = (rollout.correct == 1).astype(jnp.float32)
  return turns.outcome_centered(
    reading.chances(rollout), reading.step_mask(rollout), right, beta
  )
