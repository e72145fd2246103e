"""Worked example of GRPO."""

import numpy as np
import pytest
from helpers import worked_example

from rl import methods


@pytest.mark.worked_example("method:grpo")
def test_advantages_clip_and_kl():
  """Scores 1, 0, 0, 0: the mean is 1/4, and the deviation (n - 1) is 1/2."""
  rollout = worked_example.rollout([1, 0, 0, 0], [1, 2, 1, 1])
  m = methods.get("grpo")
  advantages = [[1.5, -0.5, -0.5, -0.5]]
  np.testing.assert_allclose(
    worked_example.advantages(m, rollout), advantages, rtol=1e-5
  )
  # Ratios to the old policy: above the clip range, in it, in it, below it.
  ratios = np.array([[[1.3, 1], [1.1, 0.9], [1.25, 1], [0.7, 1]]])
  old = np.full(ratios.shape, np.log(0.2))
  log_probs = old + np.log(ratios)
  ref = np.full(ratios.shape, np.log(0.1))
  loss, slopes = worked_example.loss(
    m, rollout, log_probs, old, other={"ref": ref}
  )
  # - min(rho A, clip(rho, .8, 1.2) A), a mean over tokens and over 4 samples.
  surrogate = [1.2 * 1.5, (1.1 + 0.9) / 2 * -0.5, 1.25 * -0.5, 0.8 * -0.5]
  # d / d log pi is - rho A inside the range, and where the minimum is not
  # clipped: sample 2 has rho > 1.2, but A < 0.
  expected = [[0, 0], [0.55 / 2, 0.45 / 2], [0.625, 0], [0, 0]]
  # KL by k3 with d = log pi_ref - log pi: exp(d) - d - 1, slope 1 - exp(d).
  d = ref - log_probs
  k3 = np.exp(d) - d - 1
  kl = [k3[0, 0, 0], k3[0, 1].mean(), k3[0, 2, 0], k3[0, 3, 0]]
  beta = 0.04
  np.testing.assert_allclose(
    loss, (-sum(surrogate) + beta * sum(kl)) / 4, rtol=1e-5
  )
  per_token = np.array([[1, 0], [0.5, 0.5], [1, 0], [1, 0]])
  kl_slopes = beta * (1 - np.exp(d[0])) * per_token
  np.testing.assert_allclose(
    slopes[0], (np.array(expected) + kl_slopes) / 4, atol=1e-6
  )
