"""Worked example of Clip-Cov."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clipped_group, worked_example

from rl import methods
from rl.methods.surrogates import clip_cov


@pytest.mark.worked_example("method:clip_cov")
def test_a_token_of_high_covariance_has_no_gradient():
  """One of 8 tokens has a covariance in (1, 5); its A becomes 0."""
  # log pi_old minus its mean, -4.5. The mean of A is (2 * 3/2 - 6 * 1/2) / 8.
  d = np.array([[0.5, 4, 9], [-4, 2, 3], [-11, 2.5, 9], [3, 9, 9], [9, 9, 9]])
  # A d of the tokens: 0.75 and 6; 2, -1 and -1.5; 5.5 and -1.25; -1.5.
  old = np.exp(np.where(clipped_group.MASK, d - 4.5, -0.1))
  a = clipped_group.Z_SCORES[:, None] * np.ones((5, 3))
  a[1, 0] = 0
  expected = clipped_group.objective(a, clipped_group.TOKEN_MEAN, 0.8, 1.2)
  m = methods.get("clip_cov")
  clipped_group.check_loss(m, clipped_group.group(), expected, old)


def test_the_number_of_tokens_without_a_gradient_is_rounded_down():
  """The largest whole number of 0.0002 times all tokens, at least one."""
  m = methods.get("clip_cov")
  # A of +-sqrt(1/2), and log pi of +-3 times 1.4 or 2.2 around their mean.
  for tokens, count in ((4, 1), (12_500, 2)):
    log_probs = np.full((1, 2, tokens // 2), [[3.0], [-3]])
    log_probs *= np.resize([1.4, 2.2], tokens // 2) / 2
    rollout = worked_example.rollout(
      [1, 0], [tokens // 2] * 2, extras={"old/log_probs": log_probs}
    )
    selected = worked_example.apply(dict(m.prepared)["selected"], rollout)
    assert selected.sum() == count
    a = worked_example.advantages(m, rollout)
    np.testing.assert_allclose(np.abs(a), np.sqrt(0.5), rtol=1e-5)


def test_covariances_at_the_bounds_are_not_drawn():
  """Covariances 1, 2, 3 and 3, 2, 1; only those of 2 are within (1, 3)."""
  log_probs = np.array([[[1.0, 2, 3], [-3, -2, -1]]])
  rollout = worked_example.rollout(
    [1, 0], [3, 3], extras={"old/log_probs": log_probs}
  )
  signal = jnp.array([[[1.0] * 3, [-1] * 3]])
  t = clip_cov.select_by_covariance(fraction=1.0, low=1.0, high=3.0)
  actual, _ = t.apply(signal, rollout, ())
  np.testing.assert_array_equal(actual, [[[0, 1, 0], [0, 1, 0]]])
  # A is +-sqrt(1/2): covariances 0.9, 1.9 and 9 of each sample, by default
  # within (1, 5).
  log_probs = np.array([[[0.9, 1.9, 9], [-0.9, -1.9, -9]]]) * np.sqrt(2)
  rollout = worked_example.rollout(
    [1, 0], [3, 3], extras={"old/log_probs": log_probs}
  )
  m = methods.get("clip_cov", fraction=1.0)
  selected = worked_example.apply(dict(m.prepared)["selected"], rollout)
  np.testing.assert_array_equal(selected, [[[False, True, False]] * 2])


def test_drawn_tokens_have_no_advantage_and_are_counted():
  """Ratios beyond 1.5 are clipped where the token was not drawn."""
  selected = jnp.array([True, False, True, False])
  rollout = worked_example.rollout([0], extras={"prepared/selected": selected})
  values, metrics = clip_cov.ppo_clip_of_others(0.5).fn(
    jnp.log(jnp.array([2.0, 2, 0.25, 0.75])),
    jnp.array([1.0, 1, -1, -1]),
    None,
    rollout,
  )
  np.testing.assert_allclose(values, [0, 1.5, 0, -0.75])
  np.testing.assert_array_equal(metrics["policy/clip_frac_cov"], selected)
  high = [False, True, False, False]
  np.testing.assert_array_equal(metrics["policy/clip_frac_high"], high)
  assert not metrics["policy/clip_frac_low"].any()
