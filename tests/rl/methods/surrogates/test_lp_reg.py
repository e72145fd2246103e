"""Worked example of Lp-Reg."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rl import methods, types
from rl.methods.surrogates import lp_reg

LENGTHS = np.array([110, 120, 120, 110, 120])


@pytest.mark.worked_example("method:lp_reg")
def test_pull_at_unlikely_tokens_of_wrong_samples():
  """Of 350 tokens with A < 0 the 3 least likely may be pulled."""
  exists = np.array([[True, True, True, True, False]])
  rollout = worked_example.rollout([1, 0, 0, 0, 9], LENGTHS, sample_mask=exists)
  old = np.full((1, 5, 120), 0.5)
  old[0, 4] = old[0, 3, 110:] = 0.001  # do not exist
  old[0, 0, 5] = 0.03  # A > 0
  old[0, 1, 7], old[0, 2, 119], old[0, 3, 0] = 0.01, 0.03, 0.04
  old[0, 3, 1] = 0.06  # the fourth
  policy = old.copy()
  policy[0, 1, 7] = 0.004  # below kappa = 0.02 times 0.99: not in the proxy
  policy[0, 2, 119] = 0.02
  policy[0, 3, 0] = 0.08  # d > 0
  policy[0, 3, 1] = 0.02
  policy[0, 0, 5] = 0.33  # a ratio of 11, above 1 + 9
  policy[0, 0, 6] = 0.02  # 1/25, and A > 0
  m = methods.get("lp_reg")
  loss, slopes = worked_example.loss(m, rollout, np.log(policy), np.log(old))
  mask = (np.arange(120) < LENGTHS[:, None]) & exists[0, :, None]
  rho = policy[0] / old[0]
  a = np.array([1.5, -0.5, -0.5, -0.5, 0])[:, None] * mask
  value = a * rho
  value[0, 5] = 10 * 1.5
  expected = -a * rho
  expected[0, 5] = 0
  # e^-d - 1 + d, d = log pi - log proxy; the proxy has all of both tokens.
  d = np.log(0.02 / 0.03)
  expected[2, 119] += 1 - np.exp(-d)
  number = 460
  total = -value.sum() + np.exp(-d) - 1 + d
  np.testing.assert_allclose(loss, total / number, rtol=1e-4)
  np.testing.assert_allclose(slopes[0], expected / number, atol=1e-7)


def test_the_proxy_has_the_tokens_at_its_limit():
  """With kappa = 1 these are the two most likely of three tokens."""
  logits = jnp.log(jnp.array([[0.4, 0.4, 0.2]] * 3))
  actual = lp_reg.proxy(1.0).probe.fn(logits, jnp.arange(3))
  np.testing.assert_allclose(np.exp(actual), [0.5, 0.5, 0], rtol=1e-6)


def test_tokens_without_a_negative_advantage_and_far_from_the_proxy():
  """Half of four tokens with A < 0; the least likely token has A = 0."""
  rollout = worked_example.rollout(
    [0],
    [6],
    extras={
      "old/log_probs": [[[-1.0, -2, -3, -4, -5, -6]]],
      "prepared/advantage": [[[-1.0, -1, -1, -1, 0.5, 0]]],
      "old/min_p_log_probs(0.02)": [[[0.0, 0, 0, 0, 0, 0]]],
    },
  )
  selected = worked_example.apply(lp_reg.least_likely(fraction=0.5), rollout)
  np.testing.assert_array_equal(selected, [[[0, 0, 1, 1, 0, 0]]])
  # e^-d - 1 + d of d = -1 and -2; e^100 is too large for float32.
  policy = {"log_probs": jnp.array([[[-100.0, -1, -1, -2, 1, -100]]])}
  actual = lp_reg.pull_to_proxy(kappa=0.02).fn(
    jnp.asarray(selected), types.Named(policy), rollout
  )
  expected = [0, 0, np.e - 2, np.e**2 - 3, 0, 0]
  np.testing.assert_allclose(actual, [[expected]], rtol=1e-5)
