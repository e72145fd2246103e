"""Right answers with an error on the way, and the judge that looks for it.

A right answer reached by a wrong step teaches the step. It is worth less than
a clean one and more than a wrong answer: early on, when clean ones are rare, it
is above the group's mean and a stepping stone; once they are common it is below
the mean and goes. The judge is asked about right answers only.

Usage, `flawed` [P, S] of a judge, NaN where its reply could not be read:
  scores = flaws.flaw_aware(correct, flawed)

Source: Ding et al. 2025, FAPO: Flawed-Aware Policy Optimization for Efficient
and Reliable Reasoning, and its code.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards.inputs import is_right, present

Array = jax.Array


def flaw_aware(correct: Array, flawed: Array, weight: float = 1.0) -> Array:
  """R = 1 - weight 1[flawed] if right, else -1.

  With weight 1 a flawed right answer is at 0, which is above its group's mean
  while fewer samples are right and clean than are wrong: it turns by itself
  from a help into a mistake. weight 0 is +-1 by the verdict.

  Its weakness: the judge decides what is a flaw, and a steps-free answer that
  happens to be right has none.

  Args:
    correct: `[...]` verdicts; 1 right, anything else wrong.
    flawed: `[...]` bool, or a probability in [0, 1]; read where right only.
      NaN, of a judge that failed, is clean.
    weight: lambda, what a flaw costs; at most 2, or a wrong answer is better.

  Returns:
    `[...]` float32 in [-1, 1].

  Raises:
    ValueError: the weight is outside [0, 2].
  """
  if not 0 <= weight <= 2:
    raise ValueError(
      f"weight = {weight:g} of a flaw must be in [0, 2]; nearest: "
      f"{min(max(weight, 0.0), 2.0):g}"
    )
  right = is_right(correct)
  flawed = jnp.asarray(flawed).astype(jnp.float32)
  flaw = present(flawed, right & ~jnp.isnan(flawed))
  return jnp.where(right, 1.0 - weight * flaw, -1.0)


def located(
  predicted: Array, truth: Array, steps: Array, parsed: Array | None = None
) -> Array:
  """What a judge earns for naming the first wrong step.

    no error     +1 if it names none, else -1
    error at g   -1 if it names none, else 1 - |named - g| / steps

  Its weakness: where most solutions have no error, to name none every time pays
  1 - 2 (the share of those with one).

  Args:
    predicted: `[...]` int, the step named, -1 for none.
    truth: `[...]` int, the first wrong step, -1 for none.
    steps: `[...]` int, how many there are.
    parsed: `[...]` bool, replies that could be read; others, and steps that do
      not exist, earn -1. None: all.

  Returns:
    `[...]` float32 in [-1, 1].
  """
  predicted, truth = jnp.asarray(predicted), jnp.asarray(truth)
  read = (predicted >= -1) & (predicted < steps)
  if parsed is not None:
    read = read & parsed
  distance = jnp.abs(predicted - truth) / jnp.maximum(steps, 1)
  both_none = (predicted < 0) & (truth < 0)
  both_some = (predicted >= 0) & (truth >= 0)
  reward = jnp.where(both_some, 1.0 - distance, jnp.where(both_none, 1.0, -1.0))
  return jnp.where(read, reward, -1.0).astype(jnp.float32)
