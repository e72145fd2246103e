"""Tests of `rewards.confidence.clipped_confidence`."""

import jax.numpy as jnp
import numpy as np
import pytest

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
  with pytest.raises(ValueError, match=r"low = 0.9 and high = 0.1"):
    clipped_confidence.clipped_confidence_scores(
      jnp.ones(4), logs, mask, 0.9, 0.1
    )
