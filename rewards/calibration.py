"""Rewards of forecasts: a probability against what happened.

Usage, with probabilities read from the text by the host:
  scores = calibration.brier(probabilities, outcomes, parsed)

Centre them in the group and do not divide by its standard deviation: the score
is proper, its quotient is not (whoever says what happens seldom is weighed up).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards.inputs import present

Array = jax.Array


def brier(
  probabilities: Array, outcomes: Array, parsed: Array | None = None
) -> Array:
  """R = -(p - y)^2, and -1, the worst, where there is no probability.

  Its expectation is largest at p = P(y = 1), and nowhere else: one cannot do
  better than to say what one believes. 1 + R is the form of other codes.

  Source: Turtel et al. 2025, Outcome-based Reinforcement Learning to Predict the
  Future; Brier 1950.

  Args:
    probabilities: `[...]` p; outside [0, 1], or NaN, it is none.
    outcomes: `[...]` y in {0, 1}, broadcast.
    parsed: `[...]` bool, the text states one; None: everywhere.

  Returns:
    `[...]` float32 in [-1, 0].
  """
  probabilities = jnp.asarray(probabilities)
  stated = (probabilities >= 0) & (probabilities <= 1)
  if parsed is not None:
    stated = stated & parsed
  error = present(probabilities, stated) - jnp.asarray(outcomes, jnp.float32)
  return jnp.where(stated, -(error**2), -1.0)
