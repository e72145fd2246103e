"""One group with clipped ratios, for worked examples of methods.

The group has five samples, the last of which does not exist. Its scores 1, 0,
0, 0 have the mean 1/4 and the standard deviation (n - 1) 1/2, so that the
z-scores are 3/2 and three times -1/2. There are ratios below, in and above the
clip range for both signs of the advantage.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from helpers import clip_example, worked_example
from rl import method, types

SCORES = (1, 0, 0, 0, 9)
LENGTHS = (2, 3, 2, 1, 2)
EXISTS = np.array([[True, True, True, True, False]])
MASK = (np.arange(3) < np.array(LENGTHS)[:, None]) & EXISTS[0, :, None]
Z_SCORES = np.array([1.5, -0.5, -0.5, -0.5, 0])
RATIOS = np.array(
  [[1.3, 0.7, 5], [1.4, 0.75, 1.1], [0.9, 1.25, 5], [0.6, 5, 5], [5, 5, 5]]
)
# Probabilities under the policy at the start of the training step.
OLD = np.array(
  [
    [0.3, 0.5, 0.6],
    [0.55, 0.1, 0.25],
    [0.3, 0.2, 0.6],
    [0.15, 0.6, 0.6],
    [0.65, 0.05, 0.6],
  ]
)
# 1 / the number of tokens, and 1 / that of samples and of the sample's tokens.
TOKEN_MEAN = MASK / 8
SAMPLE_MEAN = MASK / np.array(LENGTHS)[:, None] / 4
# The vocabulary has two tokens: the entropy is - p log p - (1 - p) log(1 - p).
ENTROPY = -OLD * np.log(OLD) - (1 - OLD) * np.log(1 - OLD)


def group(**fields: Any) -> types.Rollout:
  """Returns the rollout of this group."""
  settings = {"scores": SCORES, "lengths": LENGTHS, "sample_mask": EXISTS}
  return worked_example.rollout(**(settings | fields))


def objective(
  advantages: Any, weights: Any, low: Any, high: Any, cap: float = np.inf
) -> tuple[float, np.ndarray]:
  """Returns - sum w min(rho A, clip(rho, low, high) A), and its slopes.

  rho is `RATIOS`; w [S, T] is 0 at tokens that do not count. A cap bounds rho
  first. The slope in log pi is - w rho A, and 0 where the minimum is clipped.
  """
  a = np.asarray(advantages)
  a = np.broadcast_to(a if a.ndim == 2 else a[:, None], RATIOS.shape)
  rho = np.minimum(RATIOS, cap)
  values, slopes = clip_example.clipped(a, rho, 1 - low, high - 1, sides="")
  return np.sum(weights * values), weights * np.where(cap < RATIOS, 0, slopes)


def check_loss(
  m: method.Method,
  rollout: types.Rollout,
  expected: tuple[float, np.ndarray],
  old: np.ndarray = OLD,
  **settings: Any,
) -> None:
  """Compares the loss at `RATIOS` to `old`, and its slopes, with numbers."""
  old = np.log(old)[None]
  actual, slopes = worked_example.loss(
    m, rollout, old + np.log(RATIOS) * MASK, old, **settings
  )
  loss, expected_slopes = expected
  np.testing.assert_allclose(actual, loss, rtol=2e-5, atol=2e-6)
  np.testing.assert_allclose(slopes[0], expected_slopes, atol=2e-6)
