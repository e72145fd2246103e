"""Brier score: a reward for calibrated probabilities.

Center these scores within the group but do not divide them by the group's
standard deviation. The Brier score is a proper scoring rule; the quotient is
not.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import types
from rl.transforms import transform

Array = jax.Array


def brier_scores(
  probabilities: Array, outcomes: Array, parsed: Array | None = None
) -> Array:
  """Returns -(p - y)^2, or -1, the lowest score, if no probability is stated.

  The expected score is largest only for p = P(y = 1), so the best strategy is
  to state the true probability. Other implementations add 1 to the score.

  Source: Turtel et al. 2025, Outcome-based Reinforcement Learning to Predict
  the Future; Brier 1950.

  Args:
    probabilities: `[...]` p; a value outside of [0, 1] or NaN counts as not
      stated.
    outcomes: `[...]` y in {0, 1}, broadcast.
    parsed: `[...]` bool, True for texts that state a probability; None: all do.

  Returns:
    `[...]` float32 in [-1, 0].
  """
  probabilities = jnp.asarray(probabilities)
  stated = (probabilities >= 0) & (probabilities <= 1)
  if parsed is not None:
    stated = stated & parsed
  error = base.zero_outside(probabilities, stated) - jnp.asarray(
    outcomes, jnp.float32
  )
  return jnp.where(stated, -(error**2), -1.0)


@transform(takes="none", gives="sample")
def brier(_, rollout: types.Rollout, *, forecast: str, stated: str) -> Array:
  """Returns `brier_scores` of a probability that the completion states.

  Args:
    forecast: component that holds the stated probability.
    stated: component that is 1 if the completion states a probability. It is
      needed because a missing component is 0, which is a probability too.
  """
  value = base.read_component(rollout, forecast)
  parsed = base.read_component(rollout, stated) > 0.5
  return brier_scores(value, rollout.correct == 1, parsed)
