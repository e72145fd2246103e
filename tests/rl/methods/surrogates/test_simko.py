"""Worked example of SimKO."""

import numpy as np
import pytest
from helpers import clipped_group

from rl import methods


@pytest.mark.worked_example("method:simko")
def test_candidates_and_pressed_tokens():
  """One token of each sample is above the 0.8 quantile of its entropies.

  These are token 1 of the right sample, and token 0 of the first two wrong
  ones, which is the most likely one in the first of them.
  """
  a = clipped_group.Z_SCORES[:, None] * np.ones((5, 3))
  a[1, 0] *= 1.1
  loss, slopes = clipped_group.objective(a, clipped_group.SAMPLE_MEAN, 0.8, 1.2)
  # The gradient of 0.99 log rho + 0.01 / 2 (log p + log(1 - p)), p = 0.35: the
  # vocabulary has two tokens, and d log(1 - p) / d log p = -p / (1 - p).
  slopes[0, 1] *= 0.99 + 0.01 / 2 * (1 - 0.35 / 0.65)
  m = methods.get("simko")
  clipped_group.check_loss(m, clipped_group.group(), (loss, slopes))
