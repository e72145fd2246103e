"""Worked example of EMPG."""

import numpy as np
import pytest
from helpers import clipped_group, worked_example

from rl import methods


@pytest.mark.worked_example("method:empg")
def test_modulation_by_the_entropy_of_steps():
  """Six steps of four samples, of one or two tokens."""
  rollout = clipped_group.group(
    steps=[[2], [1, 2], [1, 1], [1], [1, 1]],
    extras={"old/entropy": clipped_group.ENTROPY[None]},
  )
  e = clipped_group.ENTROPY
  h = np.array(
    [e[0, :2].mean(), e[1, 0], e[1, 1:].mean(), e[2, 0], e[2, 1], e[3, 0]]
  )
  h = (h - h.min()) / (h.max() - h.min())
  g = np.exp(-h) / np.exp(-h).mean()
  f = np.exp(-h)
  following = np.array([0, f[2], 0, f[4], 0, 0])
  # A g_j + 0.1 f_{j+1}, minus its mean over the steps of the batch.
  a = np.array([1.5, -0.5, -0.5, -0.5, -0.5, -0.5]) * g + 0.1 * following
  a = a - a.mean()
  wanted = np.zeros((5, 3))
  wanted[0, :2], wanted[1, 0], wanted[1, 1:] = a[0], a[1], a[2]
  wanted[2, 0], wanted[2, 1], wanted[3, 0] = a[3], a[4], a[5]
  m = methods.get("empg")
  actual = worked_example.advantages(m, rollout)[0]
  np.testing.assert_allclose(actual * clipped_group.MASK, wanted, atol=1e-5)
  expected = clipped_group.objective(wanted, clipped_group.TOKEN_MEAN, 0.8, 1.2)
  clipped_group.check_loss(m, rollout, expected)
