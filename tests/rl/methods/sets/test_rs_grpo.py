"""Worked example of RS-GRPO."""

import numpy as np
import pytest
from helpers import clip_example, subset_example

from rl import methods
from rl.methods.sets import rs_grpo


def risk_seeking(scores, beta):
  if beta == 0:
    return scores - scores.mean()
  weights = np.exp(beta * scores)
  return (weights / weights.mean() - 1) / beta


@pytest.mark.worked_example("method:rs_grpo")
@pytest.mark.parametrize("beta", [2.0, -1.0, 0.0])
def test_exponential_weights_relative_to_their_mean(beta):
  rollout = clip_example.rollout(subset_example.SCORES)
  m = methods.get("rs_grpo", beta=beta) if beta != 2 else methods.get("rs_grpo")
  advantages = subset_example.by_group(risk_seeking, beta)
  clip_example.check_advantages(m, rollout, advantages)
  mask = clip_example.mask(rollout)
  clip_example.check_clip(m, rollout, advantages, mask / mask.sum(), 0.2, 0.2)


def test_large_exponents_are_finite_and_seek_the_best():
  """beta A is n / m - 1 for the m best of n samples, and -1 for the others."""
  rollout = clip_example.rollout([0.3, 0, 0.9, 0.9, 0.1, 0.2])
  advantages = [[-1, 0, 1.5, 1.5, -1, -1]]
  m = methods.get("rs_grpo", beta=500.0)
  clip_example.check_advantages(m, rollout, np.array(advantages) / 500)


def test_a_group_without_samples_has_no_advantage():
  rollout = clip_example.rollout([0.3, 0, 0.9, 0.9, 0.1, 0.2])
  rollout = rollout.replace(sample_mask=rollout.sample_mask & False)
  transform = rs_grpo.risk_seeking(beta=2.0)
  advantages, _ = transform.apply(rollout.scores, rollout, ())
  np.testing.assert_array_equal(advantages, 0)
