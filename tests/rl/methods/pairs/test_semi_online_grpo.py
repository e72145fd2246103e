"""Worked example of semi-online GRPO."""

import numpy as np
import pytest
from helpers import worked_example

from rl import methods


@pytest.mark.worked_example("method:semi_online_grpo")
def test_capped_weights_and_kl():
  """-sg[min(rho, 2)] A log pi + 0.001 k3, rho to the policy that sampled."""
  behavior = np.full((1, 5, 2), np.log(0.1))
  rollout = worked_example.rollout(
    [1, 0, 0, 0, 9],
    [2, 1, 2, 1, 1],
    sample_mask=np.array([[True, True, True, True, False]]),
    behavior_log_probs=behavior,
  )
  rho = np.array([[2.5, 0.3], [3, 1], [0.05, 1.5], [1.9, 1], [1, 1]])
  log_probs = behavior + np.log(rho)
  ref = np.full((1, 5, 2), np.log(0.15))
  loss, slopes = worked_example.loss(
    methods.get("semi_online_grpo"),
    rollout,
    log_probs,
    behavior + 0.5,  # in no ratio
    other={"ref": ref},
  )
  # A mean over the tokens of each sample, then over the 4 samples.
  shares = np.array([[0.5, 0.5], [1, 0], [0.5, 0.5], [1, 0], [0, 0]]) / 4
  a = np.array([[1.5], [-0.5], [-0.5], [-0.5], [0]])
  weights = shares * a * np.minimum(rho, 2)
  d = (ref - log_probs)[0]
  k3 = shares * (np.exp(d) - d - 1)
  loss_wanted = -np.sum(weights * log_probs[0]) + 0.001 * k3.sum()
  np.testing.assert_allclose(loss, loss_wanted, rtol=1e-5)
  expected = -weights + 0.001 * shares * (1 - np.exp(d))
  np.testing.assert_allclose(slopes[0], expected, atol=1e-6)
