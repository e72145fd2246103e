"""Flaw-aware reward: right answers that contain a wrong step score less.

A right answer with a wrong step (a flaw) should score less than one without,
and more than a wrong answer. Early in training, when flawless right answers are
rare, its score is above the group's mean and reinforces it; later it is below.
A judge finds the flaws; it needs to read right answers only.

Source: Ding et al. 2025, FAPO: Flawed-Aware Policy Optimization for Efficient
and Reliable Reasoning, and its released code. The training of the judge is left
out.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import UsageError, types
from rl.transforms import transform

Array = jax.Array


def flaw_aware_scores(
  correct: Array, flawed: Array, weight: float = 1.0
) -> Array:
  """Returns 1 - weight * flawed for right answers, else -1.

  With weight 1 a flawed right answer scores 0. This is above the mean of its
  group, the samples of one prompt, while fewer samples are right and flawless
  than are wrong.

  Args:
    correct: `[...]` verdicts; 1 is right, all others count as wrong.
    flawed: `[...]` bool, or a probability in [0, 1]; not read for answers that
      are not right. NaN, for a judge that failed, counts as 0.
    weight: cost of a flaw, 0 to 2; with 2 a flawed right answer scores -1 too.

  Returns:
    `[...]` float32 in [-1, 1].

  Raises:
    UsageError: `weight` is outside [0, 2].
  """
  if not 0 <= weight <= 2:
    raise UsageError(
      f"weight = {weight:g} of a flaw must be between 0 and 2; the nearest "
      f"valid value is {min(max(weight, 0.0), 2.0):g}"
    )
  right = base.is_right(correct)
  flawed = jnp.asarray(flawed).astype(jnp.float32)
  flaw = base.zero_outside(flawed, right & ~jnp.isnan(flawed))
  return jnp.where(right, 1.0 - weight * flaw, -1.0)


@transform(takes="none", gives="sample")
def flaw_aware(
  _, rollout: types.Rollout, *, flawed: str, weight: float = 1.0
) -> Array:
  """Returns `flaw_aware_scores`; `flawed` names the component of the judge."""
  flaws = base.read_component(rollout, flawed)
  return flaw_aware_scores(rollout.correct, flaws, weight)
