"""Worked example of the entropy advantage."""

import numpy as np
import pytest
from helpers import clipped_group, worked_example

from rl import methods


@pytest.mark.worked_example("method:entropy_adv")
def test_bonus_and_its_cap():
  """A + min(0.4 H, |A| / 2): caps of 0.75 and 0.25."""
  entropy = np.array(clipped_group.ENTROPY)
  entropy[0, 0] = 2.5  # 0.4 H = 1
  rollout = clipped_group.group(extras={"old/entropy": entropy[None]})
  target = np.zeros((5, 3))
  target[0, :2] = [1.5 + 0.75, 1.5 + 0.4 * np.log(2)]
  # -0.4 p log p - 0.4 (1 - p) log(1 - p) for p = 0.55 (capped), 0.1, 0.25, ...
  target[1] = [-0.25, -0.5 + 0.4 * 0.325083, -0.5 + 0.4 * 0.562335]
  target[2, :2] = -0.5 + 0.4 * np.array([0.610864, 0.500402])
  target[3, 0] = -0.5 + 0.4 * 0.422709
  m = methods.get("entropy_adv")
  np.testing.assert_allclose(
    worked_example.advantages(m, rollout)[0], target, rtol=1e-5
  )
  target[0, 0] = 1.5 + 0.4 * 0.610864  # of the policy of the loss, 0.3
  expected = clipped_group.objective(target, clipped_group.TOKEN_MEAN, 0.8, 1.2)
  clipped_group.check_loss(m, rollout, expected)
