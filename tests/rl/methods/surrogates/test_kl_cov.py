"""Worked example of KL-Cov."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clipped_group, worked_example

from rl import methods, types
from rl.methods.surrogates import kl_cov


@pytest.mark.worked_example("method:kl_cov")
@pytest.mark.parametrize(("hyper", "count"), [({}, 1), ({"fraction": 0.4}, 3)])
def test_penalty_at_the_largest_covariances(hyper, count):
  """Of 8 tokens one is penalised, or 0.4 * 8 = 3.2, rounded down."""
  mask = clipped_group.MASK
  a = clipped_group.Z_SCORES[:, None] * mask
  log_old = np.log(clipped_group.OLD)
  # (A - mean A) (log pi_old - mean log pi_old), means over the 8 tokens.
  cov = (a - a.sum() / 8) * (log_old - log_old[mask].mean())
  cov = np.where(mask, cov, -np.inf)
  # log pi_old is above its mean for A > 0, or below it for A < 0.
  penalised = cov >= np.sort(cov.ravel())[-count]
  rho = clipped_group.RATIOS
  distance = np.abs(np.log(rho)) * penalised
  # - rho A + beta |log rho| with beta = 1, without a clip.
  loss = np.sum(mask * (-rho * a + distance)) / 8
  slopes = mask * (-rho * a + np.sign(np.log(rho)) * penalised) / 8
  m = methods.get("kl_cov", **hyper)
  clipped_group.check_loss(m, clipped_group.group(), (loss, slopes))


def test_covariances_that_are_not_positive():
  """Covariances 1, 0, -1 and 6: two of four tokens are selected."""
  rollout = worked_example.rollout(
    [0],
    [4],
    extras={
      "old/log_probs": [[[-1.0, -2, -1, -4]]],
      "prepared/advantage": [[[1.0, 3, -1, -3]]],
    },
  )
  t = kl_cov.highest_covariance(fraction=1.0)
  # A - 0 is 1, 3, -1, -3, and log pi - (-2) is 1, 0, 1, -2.
  np.testing.assert_array_equal(
    worked_example.apply(t, rollout), [[[1, 0, 0, 1]]]
  )


def test_the_number_of_penalized_tokens_is_rounded_down():
  """0.0002 times 12500 tokens are 2."""
  log_probs = np.linspace(-3, -1, 12_500)[None, None]
  rollout = worked_example.rollout([0], [12_500]).replace(
    extras=types.Named(
      {
        "old/log_probs": jnp.asarray(log_probs),
        "prepared/advantage": jnp.asarray(np.sign(log_probs + 2)),
      }
    )
  )
  signal = methods.get("kl_cov").loss.terms[1].signal
  assert worked_example.apply(signal, rollout).sum() == 2


def test_distances_of_rounding_error():
  """A distance of 1e-5 is none; the signal is 1 at penalized tokens."""
  old = types.Named({"old/log_probs": jnp.zeros(5)})
  rollout = worked_example.rollout([0]).replace(extras=old)
  policy = {"log_probs": jnp.array([0.005, -0.005, 1e-5, 2e-5, 3])}
  signal = jnp.array([1.0, 1, 1, 1, 0])
  actual = kl_cov.distance_to_old().fn(signal, types.Named(policy), rollout)
  np.testing.assert_allclose(actual, [0.005, 0.005, 0, 2e-5, 0], rtol=1e-6)
