"""Worked example of IGPO."""

import numpy as np
import pytest
from helpers import worked_example

from rl import methods

# Rewards of the turns of two samples, of 2 and 1 tokens, and of 1 token each.
STEPS = ((2, 1), (1, 1, 1))
REWARDS = ((0.2, 1.0), (-0.1, 0.5, 0.4))
MEAN = 2.0 / 5
STD = np.sqrt((0.04 + 0.36 + 0.25 + 0.01 + 0.0) / 5)


@pytest.mark.worked_example("method:igpo")
def test_returns_of_jointly_normalized_turns():
  """The z-scores are over all five turns; each turn adds the later ones."""
  rollout = worked_example.rollout((1, 0), steps=STEPS, step_scores=REWARDS)
  z = [(np.array(r) - MEAN) / STD for r in REWARDS]
  first = [z[0][0] + z[0][1], z[0][1]]
  second = [z[1].sum(), z[1][1] + z[1][2], z[1][2]]
  wanted = [[first[0], first[0], first[1]], second]
  got = worked_example.advantages(methods.get("igpo"), rollout)
  np.testing.assert_allclose(got[0], wanted, atol=1e-4)
  # With a discount of 1/2 per turn, not per token.
  half = worked_example.advantages(methods.get("igpo", gamma=0.5), rollout)
  assert np.isclose(half[0, 0, 0], z[0][0] + z[0][1] / 2, atol=1e-4)
  assert np.isclose(
    half[0, 1, 0], z[1][0] + z[1][1] / 2 + z[1][2] / 4, atol=1e-4
  )


@pytest.mark.worked_example("method:igpo")
def test_loss_has_the_kl_of_weight_one_thousandth():
  """Equal rewards have no advantage, so that the loss is the KL alone."""
  rollout = worked_example.rollout(
    (1, 0), steps=((1,), (1,)), step_scores=((0.5,), (0.5,))
  )
  log_probs = np.log([[[0.5], [0.25]]])
  d = np.log([[[0.2], [0.3]]]) - log_probs  # log pi_ref - log pi
  loss, slopes = worked_example.loss(
    methods.get("igpo"), rollout, log_probs, other={"ref": log_probs + d}
  )
  np.testing.assert_allclose(
    loss, 0.001 * (np.exp(d) - d - 1).mean(), rtol=1e-4
  )
  np.testing.assert_allclose(slopes, 0.001 * (1 - np.exp(d)) / 2, rtol=1e-4)
