"""Worked example of chi-squared regularisation."""

import numpy as np
import pytest
from helpers import clipped_group

from rl import methods


@pytest.mark.worked_example("method:chi_squared")
def test_clip_and_the_slope_of_the_root():
  """Scores minus the mean of the others, and the divergence of samples."""
  # n / (n - 1) times the scores minus their mean 1/4.
  a = [1, -1 / 3, -1 / 3, -1 / 3, 0]
  # PPO-clip is summed over the tokens, and averaged over samples.
  loss, slopes = clipped_group.objective(a, clipped_group.MASK / 4, 0.8, 1.2)
  # log pi_old - log ref, which the tokens share in unequal parts.
  old_to_ref = np.array([0.4, -0.3, 0.2, -0.5, 3])
  parts = np.array([[0.7, 0.3, 9], [0.5, 0.2, 0.3], [2, -1, 9], [1, 9, 9]])
  parts = np.concatenate([parts, np.ones((1, 3))])
  ref = np.log(clipped_group.OLD) - old_to_ref[:, None] * parts
  ref = np.where(clipped_group.MASK, ref, -1)
  # chi^2 of pi_old: the mean of (rho - 1) + (1 / rho - 1).
  x = old_to_ref[:4]
  chi = np.mean(np.exp(x) - 1 + np.exp(-x) - 1)
  weight = 0.1 / (2 * np.sqrt(chi))
  # 2 (rho - 1 - log rho) of each sample, with rho = pi / ref.
  log_rho = x + np.log([1.3 * 0.7, 1.4 * 0.75 * 1.1, 0.9 * 1.25, 0.6])
  rho = np.exp(log_rho)
  loss += weight * np.mean(2 * (rho - 1 - log_rho))
  pull = np.append(weight * 2 * (rho - 1) / 4, 0)
  slopes = slopes + pull[:, None] * clipped_group.MASK
  m = methods.get("chi_squared")
  clipped_group.check_loss(
    m, clipped_group.group(), (loss, slopes), other={"ref": ref[None]}
  )
