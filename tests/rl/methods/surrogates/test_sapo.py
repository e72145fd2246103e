"""Worked example of SAPO."""

import numpy as np
import pytest
from helpers import clipped_group

from rl import methods


@pytest.mark.worked_example("method:sapo")
def test_gate():
  """A (4 / tau) sigmoid(tau (rho - 1)), tau = 1 where A > 0, else 1.05."""
  a = clipped_group.Z_SCORES[:, None]
  tau = np.where(a > 0, 1, 1.05)
  rho = clipped_group.RATIOS
  gate = 1 / (1 + np.exp(-tau * (rho - 1)))
  weights = clipped_group.SAMPLE_MEAN
  # The slope in rho is A sech^2(tau (rho - 1) / 2); that in log pi has rho.
  slope = a / np.cosh(tau * (rho - 1) / 2) ** 2 * rho
  expected = -np.sum(weights * a * 4 / tau * gate), -weights * slope
  clipped_group.check_loss(methods.get("sapo"), clipped_group.group(), expected)
