"""Worked example of MaxPO."""

import itertools

import numpy as np
import pytest
from helpers import clip_example, subset_example

from rl import methods


def improvement(score, others, k):
  """Mean over the (k-1)-subsets J of the others of max(score - max_J, 0)."""
  gains = [
    max(score - max(J), 0) for J in itertools.combinations(others, k - 1)
  ]
  return np.mean(gains)


def leave_two_out(scores, k):
  """k/n (s_i - mean over j != i of s_j in the group without i)."""
  n = len(scores)
  advantages = []
  for i in range(n):
    without_i = np.delete(scores, i)
    baseline = np.mean(
      [
        improvement(without_i[j], np.delete(without_i, j), k)
        for j in range(n - 1)
      ]
    )
    signal = improvement(scores[i], without_i, k)
    advantages.append(k / n * (signal - baseline))
  return np.array(advantages)


@pytest.mark.worked_example("method:maxpo")
@pytest.mark.parametrize("k", [2, 4])
def test_the_baseline_leaves_two_samples_out(k):
  rollout = clip_example.rollout(subset_example.SCORES)
  m = methods.get("maxpo", k=k) if k != 4 else methods.get("maxpo")
  advantages = subset_example.by_group(leave_two_out, k)
  np.testing.assert_allclose(advantages.sum(-1), 0, atol=1e-9)
  clip_example.check_advantages(m, rollout, advantages)
  weights = clip_example.mask(rollout) / 2
  clip_example.check_clip(m, rollout, advantages, weights, 0.2, 0.2)
