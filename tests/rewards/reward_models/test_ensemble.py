"""Tests of `rewards.reward_models.ensemble`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.reward_models import ensemble

ensemble = compiled.functions(ensemble)

MEMBERS = jnp.array([1.0, 2.0, 6.0])[:, None]
RULES = [
  ensemble.mean,
  ensemble.median,
  ensemble.worst,
  ensemble.less_spread,
  ensemble.less_variance,
]


def test_aggregates_of_three_members():
  expected = [3, 2, 1, 0.839753, 2 / 3]
  for rule, value in zip(RULES, expected, strict=True):
    np.testing.assert_allclose(rule(MEMBERS)[0], value, rtol=1e-5)


@pytest.mark.parametrize("rule", RULES)
def test_members_are_exchangeable_and_equal_ones_are_one(rule):
  rng = np.random.default_rng(2)
  scores = jnp.asarray(rng.normal(size=(5, 30)), jnp.float32)
  np.testing.assert_allclose(rule(scores[::-1]), rule(scores), atol=1e-6)
  alike = jnp.broadcast_to(scores[0], scores.shape)
  np.testing.assert_allclose(rule(alike), scores[0], atol=1e-6)
  assert (ensemble.worst(scores) <= ensemble.median(scores)).all()


@pytest.mark.parametrize("rule", RULES)
def test_centred_members_have_no_offset(rule):
  rng = np.random.default_rng(3)
  scores = jnp.asarray(rng.normal(size=(5, 2, 8)), jnp.float32)
  shifted = scores.at[1].add(10.0).at[3, 0].add(-4.0)
  np.testing.assert_allclose(
    rule(ensemble.center_members(shifted)),
    rule(ensemble.center_members(scores)),
    atol=1e-5,
  )


def test_the_slope_of_the_spread_is_finite_where_members_agree():
  alike = jnp.full((4, 1), 0.75)
  slope = jax.grad(lambda x: ensemble.less_spread(x).sum())(alike)
  np.testing.assert_array_equal(slope, 1 / 4)  # that of the mean


def test_what_one_member_overrates_the_worst_does_not():
  scores = jnp.array([[9.0, 1.0], [-1.0, 1.0], [-1.0, 1.0]])
  assert jnp.argmax(ensemble.mean(scores)) == 0  # the mean's own weakness
  assert jnp.argmax(ensemble.worst(scores)) == 1
  assert jnp.argmax(ensemble.median(scores)) == 1


@pytest.mark.worked_example(
  "reward:ensemble",
  "function:ensemble.ensemble",
  "function:ensemble.mean",
  "function:ensemble.median",
  "function:ensemble.worst",
  "function:ensemble.less_spread",
  "function:ensemble.less_variance",
)
@pytest.mark.parametrize(
  ("rule", "target"),
  [
    ("mean", [3, 0]),
    ("median", [2, -1]),
    ("worst", [1, -3]),
    # Variances (4 + 1 + 9) / 3 and (9 + 1 + 16) / 3.
    ("less_spread", [3 - np.sqrt(14 / 3), -np.sqrt(26 / 3)]),
    ("less_variance", [3 - 0.5 * 14 / 3, -0.5 * 26 / 3]),
  ],
)
def test_rules_for_three_members_and_two_samples(rule, target):
  """Scores 1, 2, 6 of the first sample, and 4, -3, -1 of the second."""
  rollout = worked_example.rollout(
    [9, 9], components={"a": [1, 4], "b": [2, -3], "c": [6, -1]}
  )
  result = worked_example.reward(
    "ensemble", rollout, members=("a", "b", "c"), rule=rule
  )
  np.testing.assert_allclose(result, [target], rtol=1e-6)


@pytest.mark.worked_example(
  "function:ensemble.median",
  "function:ensemble.less_spread",
  "function:ensemble.less_variance",
)
def test_four_members_and_weights():
  """Scores 7, 1, 4, 2: mean 3.5, median 3, variance 21 / 4."""
  scores = jnp.array([[7.0], [1], [4], [2]])
  np.testing.assert_allclose(ensemble.median(scores), [3])
  result = ensemble.less_spread(scores, 2.0)
  np.testing.assert_allclose(result, [3.5 - 2 * np.sqrt(5.25)], rtol=1e-6)
  result = ensemble.less_variance(scores, 2.0)
  np.testing.assert_allclose(result, [3.5 - 10.5], rtol=1e-6)


@pytest.mark.worked_example(
  "reward:ensemble", "function:ensemble.center_members"
)
def test_centered_members_by_default_averaged():
  """Means 2 and 3 over the two samples that exist."""
  rollout = worked_example.rollout(
    [9, 9, 9],
    components={"a": [1, 3, np.nan], "b": [7, -1, np.nan]},
    sample_mask=jnp.array([[True, True, False]]),
  )
  centered = ensemble.center_members(
    jnp.array([[[1, 3, jnp.nan]], [[7, -1, jnp.nan]]]), rollout.sample_mask
  )
  np.testing.assert_array_equal(centered, [[[-1, 1, 0]], [[4, -4, 0]]])
  result = worked_example.reward(
    "ensemble", rollout, members=("a", "b"), center=True
  )
  np.testing.assert_array_equal(result, [[1.5, -1.5, 0]])
  result = worked_example.reward("ensemble", rollout, members=("a", "b"))
  np.testing.assert_array_equal(result[0, :2], [4, 1])
