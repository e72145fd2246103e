"""Worked example of KL-Cov."""

import numpy as np
import pytest
from helpers import clipped_group

from rl import methods


@pytest.mark.worked_example("method:kl_cov")
@pytest.mark.parametrize(("fraction", "count"), [(2e-4, 1), (0.4, 3)])
def test_penalty_at_the_largest_covariances(fraction, count):
  """Of 8 tokens one is penalised, or 0.4 * 8 = 3.2, rounded down."""
  mask = clipped_group.MASK
  a = clipped_group.Z_SCORES[:, None] * mask
  log_old = np.log(clipped_group.OLD)
  # (A - mean A) (log pi_old - mean log pi_old), means over the 8 tokens.
  cov = (a - a.sum() / 8) * (log_old - log_old[mask].mean())
  cov = np.where(mask, cov, -np.inf)
  # log pi_old is above its mean for A > 0, or below it for A < 0.
  penalised = cov >= np.sort(cov.ravel())[-count]
  rho = clipped_group.RATIOS
  distance = np.abs(np.log(rho)) * penalised
  # - rho A + beta |log rho| with beta = 1, without a clip.
  loss = np.sum(mask * (-rho * a + distance)) / 8
  slopes = mask * (-rho * a + np.sign(np.log(rho)) * penalised) / 8
  m = methods.get("kl_cov", fraction=fraction)
  clipped_group.check_loss(m, clipped_group.group(), (loss, slopes))
