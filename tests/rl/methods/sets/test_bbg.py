"""Worked example of BBG."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example
from scipy import integrate, stats

from rl import methods


def slope(right, n, k):
  """E[k (1 - p)^(k-1)] under Beta(right + 1, n - right + 1)."""
  posterior = stats.beta(right + 1, n - right + 1)
  value, _ = integrate.quad(
    lambda p: k * (1 - p) ** (k - 1) * posterior.pdf(p), 0, 1
  )
  return value


@pytest.mark.worked_example("method:bbg")
def test_the_posterior_slope_is_the_weight():
  """Groups with 2 of 4 known verdicts right, 0 of 6, and 5 of 6."""
  example = clip_example.rollout(np.full((3, 6), 0.4))
  example = example.replace(
    correct=jnp.array(
      [[1, 1, 0, -1, 1, 0], [0, 0, 0, 0, 0, 0], [1, 1, 0, 1, 1, 1]], jnp.int8
    )
  )
  signs = np.array(
    [[1, 0, -1, 0, 1, -1], [-1, -1, -1, -1, -1, -1], [1, 1, -1, 1, 1, 1]]
  )
  weights = [slope(2, 4, 16), slope(0, 6, 16), slope(5, 6, 16)]
  assert weights[2] < 0.01 * 7 < weights[0]  # the last one is left out
  advantages = signs * np.array([weights[0], weights[1], 0.0])[:, None]
  m = methods.get("bbg")
  clip_example.check_advantages(m, example, advantages)
  mask = clip_example.mask(example)
  clip_example.check_clip(m, example, advantages, mask / mask.sum(), 0.2, 0.2)
  # A lower threshold lets it pass.
  m = methods.get("bbg", k=4, threshold=0.001)
  weights = [slope(2, 4, 4), slope(0, 6, 4), slope(5, 6, 4)]
  clip_example.check_advantages(m, example, signs * np.c_[weights])


@pytest.mark.parametrize(
  ("settings", "passes"), [({}, True), ({"threshold": 0.0115}, False)]
)
def test_the_gate_is_a_share_of_one_more_than_the_samples(settings, passes):
  """Three of six are right: the slope is .0109 of 7, and .0127 of 6."""
  example = clip_example.rollout(np.full((1, 6), 0.4))
  example = example.replace(
    correct=jnp.array([[1, 0, 1, 0, 1, 0]], jnp.int8),
    sample_mask=jnp.ones((1, 6), bool),
  )
  weight = slope(3, 6, 16) * passes
  advantages = np.array([[1, -1, 1, -1, 1, -1]]) * weight
  m = methods.get("bbg", **settings)
  clip_example.check_advantages(m, example, advantages)


def test_a_single_try_has_no_boundary():
  methods.get("bbg", k=2)
  with pytest.raises(ValueError, match="k = 1 must be at least 2"):
    methods.get("bbg", k=1)
