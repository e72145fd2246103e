"""Worked example of the entropic objective."""

import jax
import numpy as np
import pytest
from helpers import clip_example, subset_example, worked_example
from scipy import optimize

from rl import methods
from rl.methods.sets import entropic

LOG_2 = np.log(2)


def kl_to_uniform(b, scores):
  q = np.exp(b * (scores - scores.max()))
  q /= q.sum()
  terms = np.where(q > 0, q * np.log(np.where(q > 0, q, 1) * len(q)), 0)
  return terms.sum()


def solved(scores, budget=LOG_2):
  """exp(b (R - max R)) with the b at which the KL is the budget."""
  b = optimize.brentq(lambda b: kl_to_uniform(b, scores) - budget, 1e-6, 1e4)
  return np.exp(b * (scores - scores.max()))


def leave_one_out(scores, budget=LOG_2):
  e = solved(scores, budget)
  others = (e.sum() - e) / (len(e) - 1)
  return e / others - 1


@pytest.mark.worked_example("method:entropic")
def test_advantages_and_the_penalty():
  rollout = clip_example.rollout(subset_example.SCORES)
  mask = clip_example.mask(rollout)
  outcome = subset_example.by_group(leave_one_out, LOG_2)
  old = clip_example.old_log_probs(rollout)
  ref = old + 0.3 * np.cos(np.arange(old.size)).reshape(old.shape)
  advantages = outcome[..., None] - 0.1 * (old - ref)
  log_probs = old + 0.1
  m = methods.get("entropic")
  loss, slopes = worked_example.loss(
    m, rollout, log_probs, old, other={"ref": ref}
  )
  target = -mask / mask.sum() * advantages
  np.testing.assert_allclose(slopes, target, rtol=1e-4, atol=1e-6)
  np.testing.assert_allclose(loss, (target * log_probs).sum(), rtol=1e-4)


@pytest.mark.worked_example("method:entropic")
@pytest.mark.parametrize("budget", [0.1, 1.2])
def test_the_budget_without_the_penalty(budget):
  rollout = clip_example.rollout(subset_example.SCORES)
  m = methods.get("entropic", budget=budget, penalty=0.0)
  advantages = subset_example.by_group(leave_one_out, budget)
  mask = clip_example.mask(rollout)
  np.testing.assert_allclose(
    worked_example.advantages(m, rollout),
    advantages[..., None] * mask,
    rtol=2e-4,
    atol=1e-5,
  )
  assert not m.parameter_sets


def test_the_temperature_follows_the_scale_of_the_scores():
  tilt = jax.jit(entropic.tilt, static_argnums=2)
  scores = np.array([0.1, 0.7, 0.4, 0.2, 0.9], np.float32)
  valid = np.ones(5, bool)
  weights = tilt(scores, valid, LOG_2)
  np.testing.assert_allclose(weights, solved(scores.astype(float)), atol=1e-4)
  np.testing.assert_allclose(
    tilt(40 * scores - 3, valid, LOG_2), weights, atol=1e-4
  )
  # Three of five share the best score: the budget cannot be spent.
  tied = np.array([1, 0, 1, 0, 1], np.float32)
  np.testing.assert_allclose(tilt(tied, valid, LOG_2), tied, atol=1e-6)


def test_the_budget_is_positive():
  with pytest.raises(ValueError, match=r"budget = 0.0 must be above 0"):
    methods.get("entropic", budget=0.0)


@pytest.mark.parametrize("unit", [1e-5, 1e5])
def test_the_unit_of_the_scores_does_not_count(unit):
  scores = np.array([0.1, 0.9, 0.4, 0.0, 0.7])
  valid = np.ones(5, bool)
  np.testing.assert_allclose(
    entropic.tilt(scores * unit, valid, LOG_2), solved(scores), rtol=1e-3
  )


def test_two_samples_with_a_small_budget():
  rollout = worked_example.rollout(np.array([1.0, 0.0]))
  transform = entropic.entropic_advantages(budget=0.1)
  advantages, _ = transform.apply(rollout.scores, rollout, ())
  expected = leave_one_out(np.array([1.0, 0.0]), 0.1)
  np.testing.assert_allclose(advantages[0], expected, rtol=1e-3)


@pytest.mark.parametrize(
  ("scores", "expected"),
  [
    # Two samples are exp(budget), three are more.
    ([1.0, 0.0], [0, 0]),
    ([1.0, 0.5, 0.0], leave_one_out(np.array([1.0, 0.5, 0.0]))),
    ([0.4, 0.4, 0.4], [0, 0, 0]),
  ],
)
def test_small_groups_and_equal_scores_are_not_trained_on(scores, expected):
  rollout = worked_example.rollout(np.array(scores))
  transform = entropic.entropic_advantages(budget=LOG_2)
  advantages, _ = transform.apply(rollout.scores, rollout, ())
  np.testing.assert_allclose(advantages[0], expected, rtol=1e-4, atol=1e-6)


def test_equal_scores_have_equal_weights():
  valid = np.array([True, True, False])
  weights = entropic.tilt(np.array([0.3, 0.3, 0.9]), valid, LOG_2)
  np.testing.assert_array_equal(weights, [1, 1, 0])
