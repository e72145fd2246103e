"""Worked example of RiskPO."""

import jax
import numpy as np
import pytest
from helpers import clip_example

from rl import methods

# Five prompts of a bundle and one that is in none; the totals of the samples
# are 1, 2.3 and 1.703, without the sample that does not exist.
SCORES = np.array(
  [
    [0.1, 0.0, 0.9, 0.2],
    [0.2, 0.4, 0.7, 0.3],
    [0.0, 0.0, 0.0, 0.003],
    [0.6, 0.6, 0.6, 0.6],
    [0.1, 0.1, 0.1, 0.6],
    [0.3, 0.2, 0.8, 0.1],
  ]
)
# Standard deviations (n - 1) of each prompt, over its samples that exist: the
# third, 0.0015, is above 0.001; the fourth, 0, is not, and counts as 1.
STDS = [np.std([0.1, 0.9, 0.2], ddof=1), *np.std(SCORES[1:5], -1, ddof=1)]
STDS[3] = 1.0
TOTALS = np.array([1, np.nan, 2.3, 1.703])


def risk(low, high):
  """(1.5 CVaR + RVaR) / 2.5 of the totals, over both deviations.

  RVaR = (relu(s - q_low) - relu(s - q_high) + q_low - q_high) / (0.8 - 0.2)
  and CVaR = - relu(q_low - s) / 0.2.
  """
  rvar = [
    (max(s - low, 0) - max(s - high, 0) + low - high) / 0.6 for s in TOTALS
  ]
  cvar = [-max(low - s, 0) / 0.2 for s in TOTALS]
  mixed = (1.5 * np.array(cvar) + np.array(rvar)) / 2.5
  mixed /= np.std([1, 2.3, 1.703], ddof=1)
  mixed[1] = 0
  return np.append(mixed / np.array(STDS)[:, None], np.zeros((1, 4)), 0)


def rollout():
  return clip_example.rollout(SCORES)


@pytest.mark.worked_example("method:riskpo")
def test_risk_of_a_bundle():
  """Quantiles of 1, 1.703 and 2.3 at 0.2 and 0.8: positions 0.4 and 1.6."""
  m = methods.get("riskpo")
  # 1 + 0.4 x 0.703 and 1.703 + 0.6 x 0.597.
  low, high = 1.2812, 2.0612
  actual, state = jax.jit(m.advantage.apply)(
    None, rollout(), m.advantage.init()
  )
  np.testing.assert_allclose(actual, risk(low, high), rtol=1e-5)
  # The second batch has the old quantiles, which then move by 0.1 (level -
  # share below): 1 of 3 totals is below 1.2812 and 2 of 3 below 2.0612.
  actual, state = jax.jit(m.advantage.apply)(None, rollout(), state)
  np.testing.assert_allclose(actual, risk(low, high), rtol=1e-5)
  low, high = low + 0.1 * (0.2 - 1 / 3), high + 0.1 * (0.8 - 2 / 3)
  actual, _ = jax.jit(m.advantage.apply)(None, rollout(), state)
  np.testing.assert_allclose(actual, risk(low, high), rtol=1e-5)


@pytest.mark.worked_example("method:riskpo")
def test_clip():
  """The risk is 0 at the highest total and negative at the others."""
  example = rollout()
  mask = clip_example.mask(example)
  # A mean over all tokens; A is at most 0, so only ratios below 0.8 clip.
  weights = mask / mask.sum()
  m = methods.get("riskpo")
  clip_example.check_clip(
    m, example, risk(1.2812, 2.0612), weights, 0.2, 0.2, sides="below"
  )
