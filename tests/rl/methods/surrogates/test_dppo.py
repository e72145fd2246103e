"""Worked example of DPPO."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rl import methods, types
from rl.methods.surrogates import dppo

# Probabilities of tokens under the behavior policy and under the trained one.
MU = np.array(
  [
    [0.3, 0.3, 0.6, 0.02, 0.3, 0.3],
    [0.6, 0.6, 0.3, 0.02, 0.6, 0.5],
    [0.09, 0.5, 0.05, 0.3, 0.7, 0.9],
    [0.5] * 6,
  ]
)
PI = np.array(
  [
    [0.51, 0.49, 0.3, 0.12, 0.45, 0.46],
    [0.39, 0.41, 0.6, 0.13, 0.46, 0.44],
    [0.02, 0.5, 0.245, 0.3, 0.7, 0.01],
    [0.9] * 6,
  ]
)
LENGTHS = [6, 6, 5, 2]
EXISTS = np.array([[True, True, True, False]])
# M = 0 where the probability of a right token rose, or that of a wrong one fell
# by more than 0.2, such as from 0.3 to 0.51 and not from 0.3 to 0.49.
TV_MASK = [[0, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]]
# The KL from 0.3 to 0.45 is 0.047, that from 0.3 to 0.46 is 0.054, and from 0.6
# to 0.46 it is 0.040. From 0.09 to 0.02 it is 0.068 (D of "tv" is 0.07, and the
# KL from 0.02 to 0.09 is 0.042).
KL_MASK = [[0, 0, 1, 0, 1, 0], [0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1]]


@pytest.mark.worked_example("method:dppo")
@pytest.mark.parametrize(
  ("hyper", "mask"),
  [({}, TV_MASK), ({"divergence": "kl"}, KL_MASK)],
)
def test_tokens_that_have_moved_too_far_have_no_gradient(hyper, mask):
  """Scores 1, 0 and 0.2 minus their mean 0.4."""
  rollout = worked_example.rollout(
    [1, 0, 0.2, 9],
    LENGTHS,
    sample_mask=EXISTS,
    behavior_log_probs=np.log(MU)[None],
  )
  loss, slopes = worked_example.loss(
    methods.get("dppo", **hyper),
    rollout,
    np.log(PI)[None],
    old=np.full((1, 4, 6), np.log(0.3)),  # in no ratio
  )
  # min(rho, 5): tokens of 0.02 have a ratio of 6 and of 6.5, that of 0.05 4.9.
  a = np.array([0.6, -0.4, -0.2])[:, None]
  weights = np.minimum(PI[:3] / MU[:3], 5) * a * mask
  weights[2, 5] = 0  # after its end
  # The sum over tokens, divided by T = 6 and 3 samples.
  expected = -np.sum(weights * np.log(PI[:3])) / 18
  np.testing.assert_allclose(loss, expected, rtol=1e-5)
  np.testing.assert_allclose(slopes[0, :3], -weights / 18, rtol=1e-5, atol=1e-7)
  assert not slopes[0, 3].any()
  # Another constant in place of T.
  m = methods.get("dppo", horizon=12, **hyper)
  half, _ = worked_example.loss(m, rollout, np.log(PI)[None])
  np.testing.assert_allclose(half, expected / 2, rtol=1e-5)


@pytest.mark.parametrize(
  ("mu", "pi"), [(0.3, 0.5), (0.5, 0.3), (0.001, 0.9), (0.9, 0.9)]
)
def test_divergences_of_two_events(mu, pi):
  tv = dppo.total_variation(jnp.log(mu), jnp.log(pi))
  np.testing.assert_allclose(tv, abs(mu - pi), atol=1e-6)
  kl = mu * np.log(mu / pi) + (1 - mu) * np.log((1 - mu) / (1 - pi))
  actual = dppo.kl_of_two_events(jnp.log(mu), jnp.log(pi))
  np.testing.assert_allclose(actual, kl, rtol=1e-4, atol=1e-6)


def test_a_certain_token_has_a_finite_divergence():
  """Rounding may even put the log-prob above 0."""
  log_probs = jnp.array([0.0, 1e-7, -1e-9])
  both = dppo.kl_of_two_events(log_probs, log_probs)
  np.testing.assert_allclose(both, 0, atol=1e-6)
  one = dppo.kl_of_two_events(jnp.log(0.5), log_probs)
  np.testing.assert_allclose(one, 0.5 * np.log(0.25 / 1e-8), rtol=1e-3)


def test_the_shares_of_masked_and_of_capped_tokens():
  """The threshold is 0.25, which both 0.5 and 0.25 are exactly away from."""
  mu = jnp.array([0.25, 0.25, 0.5, 0.5, 0.25, 0.125, 0.125, 0.125, 0.5, 0.25])
  pi = jnp.array(
    [0.5, 0.75, 0.125, 0.125, 0.75, 0.25, 0.25, 0.375, 0.125, 0.75]
  )
  a = jnp.array([1.0, 1.0, -1.0, 1.0, -1.0, 1.0, 0.0, 1.0, 0.0, 0.0])
  surrogate = dppo.divergence_mask("tv", 0.26, 2.5)
  policy = types.Named({"log_probs": jnp.log(pi)})
  values, metrics = surrogate.fn(jnp.log(pi / mu), a, policy, None)
  high = [0, 1, 0, 0, 0, 0, 0, 0, 0, 0]
  low = [0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
  # Ratios of 3 are capped, if the token is not masked.
  cap = [0, 0, 0, 0, 1, 0, 0, 1, 0, 0]
  np.testing.assert_array_equal(metrics["policy/clip_frac_high"], high)
  np.testing.assert_array_equal(metrics["policy/clip_frac_low"], low)
  np.testing.assert_array_equal(metrics["policy/clip_frac_cap"], cap)
  weights = np.array([2, 0, 0, 0.25, -2.5, 2, 0, 2.5, 0, 0])
  np.testing.assert_allclose(values, weights * np.log(pi), rtol=1e-5)


def test_an_unknown_divergence_is_refused():
  with pytest.raises(ValueError, match="unknown divergence 'js'"):
    methods.get("dppo", divergence="js")
