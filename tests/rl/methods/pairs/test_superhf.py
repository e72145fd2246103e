"""Worked example of SuperHF."""

import numpy as np
import pytest
from helpers import worked_example

from rl import methods


@pytest.mark.worked_example("method:superhf")
@pytest.mark.parametrize("beta", [0, 0.3])
def test_best_samples_and_kl(beta):
  """Samples 1 and 2 are the first best ones of two groups."""
  lengths = np.array([[1, 2, 3, 1], [2, 1, 3, 1]])
  rollout = worked_example.rollout(
    [[0.3, 0.8, 0.8, 9], [-2, -3, -1, 9]],
    lengths,
    sample_mask=np.array([[True, True, True, False]] * 2),
  )
  log_probs = np.linspace(-0.4, -2, 24).reshape(2, 4, 3)
  ref = np.full((2, 4, 3), -1.1)
  m = methods.get("superhf", beta=beta) if beta else methods.get("superhf")
  loss, slopes = worked_example.loss(m, rollout, log_probs, other={"ref": ref})
  mask = np.arange(3) < lengths[..., None]
  mask[:, 3] = False
  best = np.zeros((2, 4, 3), bool)
  best[0, 1, :2] = best[1, 2] = True
  # The mean of -log pi over the 5 tokens of the best, and of k3 over all 12.
  d = ref - log_probs
  value = -log_probs[best].mean() + beta * (np.exp(d) - d - 1)[mask].mean()
  np.testing.assert_allclose(loss, value, rtol=1e-5)
  expected = -1.0 * best / 5 + beta * (1 - np.exp(d)) * mask / 12
  np.testing.assert_allclose(slopes, expected, atol=1e-6)
