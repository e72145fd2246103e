"""Worked example of the objective of Kimi k1.5."""

import numpy as np
import pytest
from helpers import clipped_group

from rl import methods


@pytest.mark.worked_example("method:kimi")
def test_quadratic_penalty():
  """Scores minus their mean, and tau / 2 times the squared log-ratio."""
  a = np.array([0.75, -0.25, -0.25, -0.25, 0])
  # log pi(y) - log pi_old(y) of the whole samples.
  d = np.log([1.3 * 0.7, 1.4 * 0.75 * 1.1, 0.9 * 1.25, 0.6, 1])
  tau = 0.1
  loss = np.sum(-a * d + tau / 2 * d**2) / 4
  slopes = (-a + tau * d)[:, None] * clipped_group.MASK / 4
  m = methods.get("kimi")
  clipped_group.check_loss(m, clipped_group.group(), (loss, slopes))
