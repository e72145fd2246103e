"""Tests of the surrogates that weigh tokens by the importance ratio."""

import jax.numpy as jnp
import numpy as np

from rl import types
from rl.methods.surrogates import weights

ADVANTAGES = jnp.array([0.5, 1, 2, -0.5, -1, -2, 0, 0, 1, -1])
RATIOS = np.array([0.5, 1, 3, 0.1, 0.3, 4, 0.1, 9, 1.5, 1.5])


def test_weights_within_bounds_and_the_shares_beyond_them():
  """Bounds 1 and 2 where A > 0, 1/4 and 2 elsewhere.

  A ratio at a bound is not beyond it, and tokens with A = 0 are not counted.
  """
  policy = types.Named({"log_probs": jnp.arange(-10.0, 0)})
  surrogate = weights.weighted_reinforce((1.0, 2.0), (0.25, 2.0))
  values, metrics = surrogate.fn(jnp.log(RATIOS), ADVANTAGES, policy, None)
  clipped = np.array([1, 1, 2, 0.25, 0.3, 2, 0.25, 2, 1.5, 1.5])
  expected = clipped * ADVANTAGES * np.arange(-10, 0)
  np.testing.assert_allclose(values, expected, rtol=1e-6)
  np.testing.assert_array_equal(
    metrics["policy/clip_frac_low"], [1, 0, 0, 1, 0, 0, 0, 0, 0, 0]
  )
  np.testing.assert_array_equal(
    metrics["policy/clip_frac_high"], [0, 0, 1, 0, 0, 1, 0, 0, 0, 0]
  )
  surrogate = weights.weighted_reinforce((0.0, 1.0), (0.0, 1.0))
  _, metrics = surrogate.fn(jnp.log(RATIOS), ADVANTAGES, policy, None)
  np.testing.assert_array_equal(
    metrics["policy/clip_frac_high"], [0, 0, 1, 0, 0, 1, 0, 0, 1, 1]
  )


def test_importance_weights():
  values = weights.importance_weighted().fn(
    jnp.log(RATIOS), ADVANTAGES, types.Named(), None
  )
  np.testing.assert_allclose(values, RATIOS * ADVANTAGES, rtol=1e-6)
