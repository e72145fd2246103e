"""Flaw-aware reward: right answers reached by a wrong step earn less.

A right answer reached by a wrong step reinforces this step. It should earn less
than a flawless one and more than a wrong answer: early in training, when
flawless answers are rare, it lies above the group's mean and serves as a
stepping stone; later it lies below the mean and disappears. The judge is asked
about right answers only.

Source: Ding et al. 2025, FAPO: Flawed-Aware Policy Optimization for Efficient
and Reliable Reasoning, and its code.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import types
from rl.transforms import transform

Array = jax.Array


def flaw_aware_scores(
  correct: Array, flawed: Array, weight: float = 1.0
) -> Array:
  """R = 1 - weight 1[flawed] for right answers, else -1.

  With weight 1 a flawed right answer scores 0. This is above the mean of its
  group as long as fewer samples are right and flawless than are wrong, so the
  same score first encourages it and later discourages it. Weight 0 gives +1 or
  -1 by the verdict. The judge decides what a flaw is, and an answer without any
  steps has none.

  Args:
    correct: `[...]` verdicts; 1 is right, all others count as wrong.
    flawed: `[...]` bool, or a probability in [0, 1]; read for right answers
      only. NaN, the reply of a judge that failed, counts as flawless.
    weight: lambda, the cost of a flaw. Above 2 a wrong answer would be better.

  Returns:
    `[...]` float32 in [-1, 1].

  Raises:
    ValueError: `weight` is outside [0, 2].
  """
  if not 0 <= weight <= 2:
    raise ValueError(
      f"weight = {weight:g} of a flaw must be in [0, 2]; nearest: "
      f"{min(max(weight, 0.0), 2.0):g}"
    )
  right = base.is_right(correct)
  flawed = jnp.asarray(flawed).astype(jnp.float32)
  flaw = base.zero_outside(flawed, right & ~jnp.isnan(flawed))
  return jnp.where(right, 1.0 - weight * flaw, -1.0)


def located(
  predicted: Array, truth: Array, steps: Array, parsed: Array | None = None
) -> Array:
  """Reward of a judge for naming the first wrong step.

    no error     +1 if the judge names no step, else -1
    error at g   -1 if the judge names no step, else 1 - |named - g| / steps

  If most solutions are free of errors, a judge that never names a step earns 1
  - 2 (share of solutions with an error).

  Args:
    predicted: `[...]` int, the named step, -1 for none.
    truth: `[...]` int, the first wrong step, -1 for none.
    steps: `[...]` int, number of steps.
    parsed: `[...]` bool, replies that could be parsed; others earn -1, as do
      steps that do not exist. None means all.

  Returns:
    `[...]` float32 in [-1, 1].
  """
  predicted, truth = jnp.asarray(predicted), jnp.asarray(truth)
  usable = (predicted >= -1) & (predicted < steps)
  if parsed is not None:
    usable = usable & parsed
  distance = jnp.abs(predicted - truth) / jnp.maximum(steps, 1)
  both_none = (predicted < 0) & (truth < 0)
  both_some = (predicted >= 0) & (truth >= 0)
  reward = jnp.where(both_some, 1.0 - distance, jnp.where(both_none, 1.0, -1.0))
  return jnp.where(usable, reward, -1.0).astype(jnp.float32)


@transform(takes="none", gives="sample")
def flaw_aware(
  _, rollout: types.Rollout, *, flawed: str, weight: float = 1.0
) -> Array:
  """`flaw_aware_scores`; `flawed` is the component of a judge of flaws."""
  flaws = base.read_component(rollout, flawed)
  return flaw_aware_scores(rollout.correct, flaws, weight)
