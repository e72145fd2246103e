"""Worked example of RL-ZVP."""

import numpy as np
import pytest
from helpers import clipped_group, worked_example

from rl import methods


@pytest.mark.worked_example("method:rl_zvp")
def test_groups_without_variance():
  """A group that is all right, one all wrong, and one of two verdicts."""
  entropy = np.array([[0.3, 0.8, 0.5], [0.2, 0.4, 0.9], [0.6, 7, 7]])
  rollout = worked_example.rollout(
    [[2, 2, 9]] * 4,
    [[3, 2, 1]] * 4,
    correct=[[1, 1, 0], [0, 0, 1], [1, 0, 0], [-1, -1, 1]],
    sample_mask=np.array([[True, True, False]] * 4),
    extras={"old/entropy": np.tile(entropy, (4, 1, 1))},
  )
  m = methods.get("rl_zvp")
  a = worked_example.advantages(m, rollout)
  # alpha H_t, and - alpha (max H - H_t), with alpha = 0.1.
  right = [[0.03, 0.08, 0.05], [0.02, 0.04, 0], [0] * 3]
  wrong = [[-0.05, 0, -0.03], [-0.02, 0, 0], [0] * 3]
  np.testing.assert_allclose(a[:2], [right, wrong], atol=1e-7)
  assert not a[2:].any()
  single = rollout.replace(sample_mask=np.array([[True, False, False]] * 4))
  assert not worked_example.advantages(m, single).any()


@pytest.mark.worked_example("method:rl_zvp")
@pytest.mark.parametrize("verdict", [0, 1])
def test_clip(verdict):
  """Z-scores where the scores differ; one verdict does not change them."""
  rollout = clipped_group.group(correct=[[verdict] * 5])
  expected = clipped_group.objective(
    clipped_group.Z_SCORES, clipped_group.TOKEN_MEAN, 0.8, 1.2
  )
  clipped_group.check_loss(methods.get("rl_zvp"), rollout, expected)
