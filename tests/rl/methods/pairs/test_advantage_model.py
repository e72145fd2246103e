"""Worked example of the advantage model with selective rehearsal."""

import numpy as np
import pytest
from helpers import clipped_group, worked_example

from rl import methods


def softplus(x):
  return np.log1p(np.exp(x))


@pytest.mark.worked_example("method:advantage_model")
def test_bounded_ranking():
  """Values 3, 1, 5 before the last tokens, minus their mean 3; margin 2.5."""
  rollout = worked_example.rollout(
    [[0.5, 0.2, 0.9, 9], [1, 1, 1, 9]],
    [[2, 3, 1, 1], [1, 1, 1, 1]],
    sample_mask=np.array([[True, True, True, False]] * 2),
  )
  values = np.full((2, 4, 3), 7.0)
  values[0, 0, 1], values[0, 1, 2], values[0, 2, 0] = 3, 1, 5
  m = methods.get("advantage_model")["advantage_model"]
  loss, _ = worked_example.loss(
    m, rollout, np.full((2, 4, 3), -1.0), values=values
  )
  a = [0, -2, 2]
  # -log sigma(a_c - a_r) - log sigma(m - a_c) - log sigma(m + a_r), a mean over
  # the pairs with R_c > R_r. The second group has no pair.
  losses = [
    softplus(a[r] - a[c]) + softplus(a[c] - 2.5) + softplus(-2.5 - a[r])
    for c, r in ((0, 1), (2, 0), (2, 1))
  ]
  np.testing.assert_allclose(loss, np.mean(losses), rtol=1e-5)


@pytest.mark.worked_example("method:advantage_model")
def test_clip_and_rehearsal():
  """PPO-clip with a, and 0.1 NLL of the first sample with the largest a."""
  values = np.full((1, 5, 3), 50.0)
  # The last tokens; a is 2, -1, -2, 1.
  values[0, 0, 1], values[0, 1, 2], values[0, 2, 1], values[0, 3, 0] = (
    6,
    3,
    2,
    5,
  )
  loss, slopes = clipped_group.objective(
    [2, -1, -2, 1, 0], clipped_group.TOKEN_MEAN, 0.8, 1.2
  )
  # The mean over the two tokens of sample 0, with the probabilities 0.39, 0.35.
  loss -= 0.1 * np.log(0.39 * 0.35) / 2
  slopes[0, :2] -= 0.1 / 2
  m = methods.get("advantage_model")["policy"]
  clipped_group.check_loss(
    m, clipped_group.group(), (loss, slopes), values=values
  )
