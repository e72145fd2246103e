"""Worked example of SAPO."""

import numpy as np
import pytest
from helpers import clip_example

from rl import methods


@pytest.mark.worked_example("method:sapo")
def test_gate():
  """A (4 / tau) sigmoid(tau (rho - 1)), tau = 1 where A > 0, else 1.05."""
  a = clip_example.Z_SCORES[:, None]
  tau = np.where(a > 0, 1, 1.05)
  rho = clip_example.RATIOS
  gate = 1 / (1 + np.exp(-tau * (rho - 1)))
  weights = clip_example.SAMPLE_MEAN
  # The slope in rho is A sech^2(tau (rho - 1) / 2); that in log pi has rho.
  slope = a / np.cosh(tau * (rho - 1) / 2) ** 2 * rho
  expected = -np.sum(weights * a * 4 / tau * gate), -weights * slope
  clip_example.check_loss(methods.get("sapo"), clip_example.group(), expected)
