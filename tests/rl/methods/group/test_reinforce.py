"""Worked example of REINFORCE."""

import jax
import numpy as np
import pytest
from helpers import clip_example

from rl import methods


@pytest.mark.worked_example("method:reinforce")
def test_moving_average_of_earlier_batches():
  """Batches of means 0.5, 1.1 and 0.7: baselines 0, 0.5 and 1.575 / 1.95."""
  batches = (
    [[1, 0, 0.2, 0.3]],  # the second score does not exist
    [[2, 0, 0.5, 0.8]],
    [[0.6, 0, 1.2, 0.3]],
  )
  m = methods.get("reinforce")
  # 0.05 x 0.5, then 0.95 x that + 0.05 x 1.1, over 0.05 and 0.95 x 0.05 + 0.05.
  baselines = [0, 0.5, (0.95 * 0.5 + 1.1) / (0.95 + 1)]
  state = m.advantage.init()
  for scores, baseline in zip(batches, baselines, strict=True):
    rollout = clip_example.rollout(scores)
    advantages, state = jax.jit(m.advantage.apply)(None, rollout, state)
    expected = np.where([[1, 0, 1, 1]], np.subtract(scores, baseline), 0)
    np.testing.assert_allclose(advantages, expected, rtol=1e-5)
  # - A log pi, summed over tokens, a mean over 3 samples; here A = R.
  rollout = clip_example.rollout(batches[0])
  weights = clip_example.mask(rollout) / 3
  clip_example.check_reinforce(m, rollout, [[1, 0, 0.2, 0.3]], weights)
