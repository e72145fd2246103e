"""Worked example of Clip-Cov."""

import numpy as np
import pytest
from helpers import clipped_group

from rl import methods


@pytest.mark.worked_example("method:clip_cov")
def test_a_token_of_high_covariance_has_no_gradient():
  """One of 8 tokens has a covariance in (1, 5); its A becomes 0."""
  # log pi_old minus its mean, -4.5. The mean of A is (2 * 3/2 - 6 * 1/2) / 8.
  d = np.array([[0.5, 4, 9], [-4, 2, 3], [-11, 2.5, 9], [3, 9, 9], [9, 9, 9]])
  # A d of the tokens: 0.75 and 6; 2, -1 and -1.5; 5.5 and -1.25; -1.5.
  old = np.exp(np.where(clipped_group.MASK, d - 4.5, -0.1))
  a = clipped_group.Z_SCORES[:, None] * np.ones((5, 3))
  a[1, 0] = 0
  expected = clipped_group.objective(a, clipped_group.TOKEN_MEAN, 0.8, 1.2)
  m = methods.get("clip_cov")
  clipped_group.check_loss(m, clipped_group.group(), expected, old)
