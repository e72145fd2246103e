"""Tests of `rewards.reward_models.ensemble`."""

import jax.numpy as jnp
import numpy as np
import pytest

from rewards.reward_models import ensemble

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


def test_what_one_member_overrates_the_worst_does_not():
  scores = jnp.array([[9.0, 1.0], [-1.0, 1.0], [-1.0, 1.0]])
  assert jnp.argmax(ensemble.mean(scores)) == 0  # the mean's own weakness
  assert jnp.argmax(ensemble.worst(scores)) == 1
  assert jnp.argmax(ensemble.median(scores)) == 1
