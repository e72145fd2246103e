"""Worked examples of off-policy max@k."""

import numpy as np
import pytest
from helpers import clip_example, subset_example, worked_example

from rl import methods


def check(m, scores, log_ratios, advantages, has_gradient):
  """Compares with - sum A log rho, a mean over prompts."""
  example = clip_example.rollout(scores)
  mask = clip_example.mask(example)
  # log rho of a sample is a sum over its tokens: half of it at the first two,
  # or all of it at a single token. Those of other tokens are padding.
  differences = np.full(mask.shape, 0.75)
  single = mask.sum(-1) == 1
  differences[..., 0] = np.where(single, log_ratios, np.divide(log_ratios, 2))
  differences[..., 1] = np.where(single, 0.75, np.divide(log_ratios, 2))
  differences[..., 2] = np.where(mask.sum(-1) == 3, 0, 0.75)
  behavior = np.full(mask.shape, -2.0)
  example = example.replace(behavior_log_probs=behavior)
  loss, slopes = worked_example.loss(m, example, behavior + differences)
  gated = np.where(has_gradient, advantages, 0)
  prompts = len(scores)
  np.testing.assert_allclose(
    loss, -(gated * log_ratios).sum() / prompts, rtol=1e-5
  )
  np.testing.assert_allclose(
    slopes, -gated[..., None] * mask / prompts, rtol=1e-5, atol=1e-7
  )


@pytest.mark.worked_example("method:max_at_k_off_policy")
def test_ratios_weigh_the_4_subsets():
  """Gains are weighed by the ratios of the subset, bounded by exp(+-1)."""
  log_ratios = np.array(
    [[1.0, 0.5, 0.25, -1.25, 1.5, -0.5], [0.5, 1.25, -0.25, 1, 0.75, 0.125]]
  )
  ratios = np.exp(np.clip(log_ratios, -1, 1))
  scores = subset_example.SCORES
  exists = ~np.isnan(scores)
  advantages = np.zeros((2, 6))
  for p in range(2):
    at = exists[p]
    advantages[p, at] = subset_example.gains(scores[p, at], 4, ratios[p, at])
  # A > 0 has a gradient up to log rho = 1.
  has_gradient = log_ratios <= 1
  m = methods.get("max_at_k_off_policy")
  check(m, scores, log_ratios, advantages, has_gradient)


@pytest.mark.worked_example("method:max_at_k_off_policy")
def test_bounds_by_the_sign_of_the_advantage():
  """With k = 1, A_i = rho_i R_i / n, with scores of both signs."""
  log_ratios = np.array(
    [[1.0, 0.5, -1.25, -1.0, 1.25, -0.5], [1.5, -1.5, 1.5, -1.5, 0.25, -0.25]]
  )
  scores = np.array(
    [[0.9, np.nan, 0.4, -0.8, 0.3, -0.2], [-0.3, -0.6, 0.7, 0.2, -0.5, 0.1]]
  )
  n = np.array([[5], [6]])
  ratios = np.exp(np.clip(log_ratios, -1, 1))
  advantages = np.nan_to_num(ratios * scores / n)
  # None beyond 1 if A > 0, and none below -1 if A < 0.
  has_gradient = np.array([[1, 0, 1, 1, 0, 1], [1, 0, 0, 1, 1, 1]])
  m = methods.get("max_at_k_off_policy", k=1)
  check(m, scores, log_ratios, advantages, has_gradient)
