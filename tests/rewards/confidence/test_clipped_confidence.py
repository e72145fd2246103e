"""Tests of `rewards.confidence.clipped_confidence`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rewards.confidence import clipped_confidence


def test_confident_errors_cost_most():
  logs = jnp.log(jnp.array([0.5, 0.8, 0.99, 0.01]))[:, None]
  mask = jnp.ones((4, 1), bool)
  right = clipped_confidence.clipped_confidence_scores(jnp.ones(4), logs, mask)
  wrong = clipped_confidence.clipped_confidence_scores(jnp.zeros(4), logs, mask)
  np.testing.assert_allclose(right, [0.5, 0.8, 0.9, 0.1], rtol=1e-6)
  np.testing.assert_allclose(wrong, -right)
  reference = clipped_confidence.clipped_confidence_scores(
    jnp.array([1, 0, 0, 1]), logs, mask, 1.0, 1.0
  )
  np.testing.assert_array_equal(reference, [1, -1, -1, 1])
  unsigned = clipped_confidence.clipped_confidence_scores(
    jnp.zeros(4), logs, mask, wrong_weight=0.0
  )
  np.testing.assert_array_equal(unsigned, 0)


@pytest.mark.parametrize(
  ("low", "high"), [(0.9, 0.1), (0.0, 0.9), (-0.1, 0.9), (0.1, 1.1)]
)
def test_bounds_of_the_confidence_lie_between_0_and_1(low, high):
  with pytest.raises(ValueError, match=f"low = {low:g} and high = {high:g}"):
    clipped_confidence.clipped_confidence_scores(
      jnp.ones(1), jnp.zeros((1, 1)), jnp.ones((1, 1), bool), low, high
    )


@pytest.mark.worked_example(
  "reward:clipped_confidence",
  "function:clipped_confidence.clipped_confidence_scores",
)
def test_geometric_means_by_hand():
  """Geometric means 0.2, 0.6, 0.01, 0.99 and 0.3, clipped to 0.1 and 0.9."""
  nan = np.nan
  p = np.array(
    [[[0.5, 0.08], [0.9, 0.4], [0.01, nan], [0.99, nan], [0.3, nan]]]
  )
  rollout = worked_example.rollout(
    np.zeros(5),
    [2, 2, 1, 1, 1],
    correct=[1, 0, 1, 0, -1],
    extras={"old/log_probs": np.log(p)},
  )
  # c if right, else -c.
  expected = [[0.2, -0.6, 0.1, -0.9, -0.3]]
  value = worked_example.reward("clipped_confidence", rollout)
  np.testing.assert_allclose(value, expected, rtol=1e-5)
  value = clipped_confidence.clipped_confidence_scores(
    rollout.correct, jnp.log(p), rollout.tokens.mask
  )
  np.testing.assert_allclose(value, expected, rtol=1e-5)
  value = worked_example.reward(
    "clipped_confidence", rollout, low=0.25, high=0.5, wrong_weight=0.8
  )
  expected = [[0.25, -0.4, 0.25, -0.4, -0.24]]
  np.testing.assert_allclose(value, expected, rtol=1e-5)
