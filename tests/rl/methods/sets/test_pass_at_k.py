"""Worked example of Pass@k Training."""

import pytest
from helpers import clip_example, subset_example

from rl import methods


@pytest.mark.worked_example("method:pass_at_k")
def test_z_scored_maxima_of_the_4_subsets():
  """A is the mean over the 4-subsets with the sample, by enumeration."""
  rollout = clip_example.rollout(subset_example.SCORES)
  m = methods.get("pass_at_k")
  advantages = subset_example.by_group(subset_example.pass_at_k, 4)
  clip_example.check_advantages(m, rollout, advantages)
  # A mean over the 10 + 12 tokens.
  weights = clip_example.mask(rollout) / 22
  clip_example.check_clip(m, rollout, advantages, weights, 0.2, 0.28)


@pytest.mark.worked_example("method:pass_at_k")
def test_disjoint_subsets():
  """With k = 2, samples (0, 2), (3, 4); the maxima 0.9 and 0.6 have z +-1."""
  rollout = clip_example.rollout(subset_example.SCORES[:1])
  m = methods.get("pass_at_k", k=2, form="full")
  clip_example.check_advantages(m, rollout, [[1, 0, 1, -1, -1, 0]])
