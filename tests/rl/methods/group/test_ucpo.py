"""Worked example of GRPO that spreads probability over right answers."""

import numpy as np
import pytest
from helpers import clip_example

from rl import methods


@pytest.mark.worked_example("method:ucpo")
def test_right_samples_share_by_the_inverse_of_their_probability():
  """Mean log-probs -2 and -3 of the right samples 0 and 3, of 3 and 2 tokens.

  By their sums, -6 and -6, the shares would be equal.
  """
  scores = [1, 0, 0.4, 0.7]
  rollout = clip_example.rollout(scores, correct=[1, 1, 0, 1])
  old = [[[-1, -2, -3], [-0.5] * 3, [-1, -9, -9], [-3.5, -2.5, -0.01]]]
  exists = np.array([True, False, True, True])
  z = clip_example.z_score(scores, exists)
  # q is e^-2 and e^-3 over their sum; 1 / q, normalised, is e^2 and e^3.
  inverse = np.exp([2, 3]) / np.exp([2, 3]).sum()
  factors = np.array([0.8 + 0.4 * inverse[0], 0, 1, 0.8 + 0.4 * inverse[1]])
  advantages = np.array([z]) * factors
  lengths = np.array([3, 1, 1, 2])[:, None]
  weights = clip_example.mask(rollout) / lengths / 3
  clip_example.check_clip(
    methods.get("ucpo"),
    rollout,
    advantages,
    weights,
    0.2,
    0.2,
    old=np.array(old),
  )


@pytest.mark.worked_example("method:ucpo")
def test_one_right_sample_and_none():
  """The factor of a single right sample is 1."""
  scores = [[1, 0, 0.4, 0.7], [0.1, 0.9, 0.4, 0.6]]
  rollout = clip_example.rollout(
    scores,
    correct=[[1, 1, 0, 0], [0, 0, 0, 0]],
    extras={"old/log_probs": np.full((2, 4, 3), [[-1], [-4], [-3], [-2]])},
  )
  exists = np.array([True, False, True, True])
  advantages = [
    clip_example.z_score(scores[0], exists),
    clip_example.z_score(scores[1], np.ones(4, bool)),
  ]
  m = methods.get("ucpo", tau=1.0)
  clip_example.check_advantages(m, rollout, np.array(advantages))


def test_tau_is_a_share():
  with pytest.raises(ValueError, match="tau = 2 must be from 0 to 1"):
    methods.get("ucpo", tau=2)
