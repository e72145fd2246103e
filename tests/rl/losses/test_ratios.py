"""Tests of `rl.losses.ratios`: values and slopes on two prompts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rl.losses import ratios

ratios = compiled.functions(ratios)

# Two prompts of two samples; the log-ratios of tokens outside of the mask are
# large.
LOG_RATIOS = jnp.array(
  [[[0.1, 0.3, 90.0], [-0.2, 90.0, 0.6]], [[90.0] * 3, [1.0, 2.0, 6.0]]]
)
MASK = LOG_RATIOS < 50
REFERENCE = jnp.arange(-12.0, 0).reshape(2, 2, 3) / 10
LOG_PROBS = REFERENCE + LOG_RATIOS


@pytest.mark.parametrize(
  ("ratio", "expected"),
  [
    (ratios.token, LOG_RATIOS),
    (ratios.sequence_mean, [[[0.2], [0.2]], [[0.0], [3.0]]]),
    (ratios.sequence, [[[0.4], [0.4]], [[0.0], [9.0]]]),
  ],
)
def test_a_ratio_has_at_each_token_the_slope_of_its_log_prob(ratio, expected):
  expected = np.broadcast_to(expected, (2, 2, 3))
  value = ratio(LOG_PROBS, REFERENCE, MASK)
  np.testing.assert_allclose(value, expected, atol=1e-5)
  weights = jnp.arange(1.0, 13).reshape(2, 2, 3)
  slope = jax.grad(lambda x: jnp.sum(weights * ratio(x, REFERENCE, MASK)))
  np.testing.assert_allclose(slope(LOG_PROBS), weights)


def test_the_shared_mean_moves_all_tokens_of_its_sample():
  value = ratios.shared_sequence_mean(LOG_PROBS, REFERENCE, MASK)
  expected = ratios.sequence_mean(LOG_PROBS, REFERENCE, MASK)
  np.testing.assert_allclose(value, expected, atol=1e-5)
  weights = jnp.arange(1.0, 13).reshape(2, 2, 3)

  def total(x):
    return jnp.sum(weights * ratios.shared_sequence_mean(x, REFERENCE, MASK))

  # (1 + 2 + 3) / 2 at two tokens, (4 + 5 + 6) / 2 at two, none, and 33 / 3.
  slopes = [[[3, 3, 0], [7.5, 0, 7.5]], [[0, 0, 0], [11, 11, 11]]]
  np.testing.assert_allclose(jax.grad(total)(LOG_PROBS), slopes, rtol=1e-6)
