"""Worked example of the off-policy sequence mask of DeepSeek-V3.2."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rl import methods, types
from rl.losses import surrogates
from rl.methods.surrogates import gmpo, off_policy_mask

LENGTHS = np.array([3, 3, 2, 1, 2, 2])
MASK = np.arange(3) < LENGTHS[:, None]
MASK[5] = False
# Ratios to the old policy, below, in and above the clip range.
RATIOS = np.array(
  [
    [1.3, 0.7, 0.9],
    [1.4, 0.75, 1.1],
    [0.9, 1.25, 9],
    [0.6, 9, 9],
    [1.1, 0.9, 9],
    [9, 9, 9],
  ]
)
OLD = np.array([0.3, 0.2, 0.4, 0.5, 0.1, 0.1])[:, None] * np.ones((6, 3))
# log mu - log pi. Samples 0 and 4 have moved the furthest, but have A > 0 or
# have become likelier. The means of samples 1, 2 and 3 are 0.51, 0.49, 0.5001.
DISTANCE = np.array(
  [
    [3, 1, 2],
    [2, -0.5, 0.03],
    [0, 0.98, 9],
    [0.5001, 9, 9],
    [-3, -1, 9],
    [9, 9, 9],
  ]
)
M = np.array([1, 0, 1, 0, 1])[:, None]


@pytest.mark.worked_example("method:off_policy_mask")
def test_wrong_samples_that_have_become_unlikely_are_masked():
  """Scores 1, 0, 0, 0 and 0 minus their mean 0.2; the KL is not masked."""
  log_pi = np.log(OLD * RATIOS * np.where(MASK, 1, 0.1))[None]
  rollout = worked_example.rollout(
    [1, 0, 0, 0, 0, 9],
    LENGTHS,
    sample_mask=np.array([[True] * 5 + [False]]),
    behavior_log_probs=log_pi + DISTANCE,
  )
  d = np.array([0.5, -1, 1, 2, -0.5, 1])[:, None] * [1, -0.6, 0.2]
  m = methods.get("off_policy_mask")
  loss, slopes = worked_example.loss(
    m, rollout, log_pi, np.log(OLD)[None], other={"ref": log_pi - d}
  )
  a = np.array([0.8, -0.2, -0.2, -0.2, -0.2])[:, None]
  rho, d = RATIOS[:5], d[:5]
  # The mean over tokens, then over five samples.
  weights = MASK[:5] / LENGTHS[:5, None] / 5
  gain = M * np.minimum(rho * a, np.clip(rho, 0.8, 1.2) * a)
  kl = rho * (np.exp(-d) - 1 + d)
  expected = np.sum(weights * (-gain + 0.001 * kl))
  np.testing.assert_allclose(loss, expected, rtol=2e-5)
  is_clipped = ((rho > 1.2) & (a > 0)) | ((rho < 0.8) & (a < 0))
  slope = -M * np.where(is_clipped, 0, rho * a) + 0.001 * rho * d
  np.testing.assert_allclose(slopes[0, :5], weights * slope, atol=2e-7)
  assert not slopes[0, 5].any()


def test_without_a_kl_there_is_no_reference():
  m = methods.get("off_policy_mask", beta=0.0)
  assert len(m.loss.terms) == 1
  assert m.parameter_sets == ()


def arguments():
  """Arguments of a surrogate: A < 0 in two samples, of which one is masked."""
  log_probs = jnp.full((1, 3, 2), -2.0)
  rollout = worked_example.rollout(
    [0, 0, 0], [1, 2, 2], behavior_log_probs=[[[-1.5, 9], [-1, -2.4], [9, 9]]]
  )
  a = jnp.array([[[-1.0, -1], [-1, -1], [1, 1]]])
  log_ratio = jnp.log(jnp.array([[[1.5, 1.5], [0.9, 1], [1.1, 1.1]]]))
  return log_ratio, a, types.Named({"log_probs": log_probs}), rollout


@pytest.mark.parametrize(
  ("surrogate", "values"),
  [
    (
      surrogates.ppo_clip(),
      [[[0, -1.5], [-0.9, -1], [1.1, 1.1]]],
    ),
    (surrogates.reinforce(), [[[0, 2], [2, 2], [-2, -2]]]),
    (gmpo.geometric_mean(0.4), [[0, -np.sqrt(0.9), 1.1]]),
  ],
  ids=str,
)
def test_any_surrogate_can_be_masked(surrogate, values):
  """Means of 0.5, of a single token, and of 0.3 for delta = 0.4."""
  wrapped = off_policy_mask.mask_off_policy_samples(surrogate, 0.4)
  actual, metrics = wrapped.fn(*arguments())
  np.testing.assert_allclose(actual, values, rtol=1e-5)
  masked = [[[True, False], [False, False], [False, False]]]
  np.testing.assert_array_equal(metrics["policy/off_policy_frac"], masked)
  if surrogate.name.startswith("ppo_clip"):
    assert "policy/clip_frac_low" in metrics
  assert (wrapped.gives, wrapped.uses_ratio, wrapped.token_mean) == (
    surrogate.gives,
    surrogate.uses_ratio,
    surrogate.token_mean,
  )
  assert str(wrapped) == f"mask_off_policy_samples({surrogate}, delta=0.4)"


def test_a_distance_of_delta_is_not_masked():
  log_ratio, a, policy, rollout = arguments()
  wrapped = off_policy_mask.mask_off_policy_samples(surrogates.ppo_clip(), 0.5)
  _, metrics = wrapped.fn(log_ratio, a, policy, rollout)
  assert not metrics["policy/off_policy_frac"].any()
  # Nor is a sample with A = 0.
  wrapped = off_policy_mask.mask_off_policy_samples(surrogates.ppo_clip(), 0.0)
  _, metrics = wrapped.fn(log_ratio, 0 * a, policy, rollout)
  assert not metrics["policy/off_policy_frac"].any()
