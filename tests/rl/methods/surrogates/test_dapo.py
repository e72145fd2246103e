"""Worked example of DAPO."""

import numpy as np
import pytest
from helpers import clipped_group, worked_example

from rl import methods


@pytest.mark.worked_example("method:dapo")
def test_clip_and_filters():
  """Sample 2 was cut off: it is in the z-scores, but not in the loss."""
  rollout = clipped_group.group(finished=np.array([[1, 1, 0, 1, 1]], bool))
  weights = clipped_group.MASK.copy()
  weights[2] = False
  expected = clipped_group.objective(
    clipped_group.Z_SCORES, weights / 6, 0.8, 1.28
  )
  m = methods.get("dapo")
  clipped_group.check_loss(m, rollout, expected)
  # A group without a wrong sample is not in the loss.
  right = rollout.replace(correct=np.array([[1, 1, 1, 1, 0]]))
  clipped_group.check_loss(m, right, (0, np.zeros((5, 3))))


@pytest.mark.worked_example("method:dapo", "method:dispo")
@pytest.mark.parametrize("name", ["dapo", "dispo"])
def test_overlong_penalty(name):
  """The penalty is 0, 1/2 and 1 at 16384, 18432 and 20480 tokens."""
  rollout = worked_example.rollout([1, 1, 1.5, 9], [1, 2, 3, 1])
  lengths = np.array([[16384, 18432, 20480, 1]])
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(lengths=lengths),
    sample_mask=np.array([[True, True, True, False]]),
  )
  # Scores 1, 0.5 and 0.5: the mean is 2/3, the deviation sqrt(1/12).
  target = np.array([[1 / 3, -1 / 6, -1 / 6, 0]]) * np.sqrt(12)
  np.testing.assert_allclose(
    worked_example.advantages(methods.get(name), rollout), target, rtol=1e-5
  )
