"""Tests of `rewards.agreement.cluster_share`."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.agreement import cluster_share

cluster_share = compiled.functions(cluster_share)


def test_expected_share_is_the_collision_probability():
  """E over groups of size 2: R is 1 if both agree, else gated to 0."""
  p = np.array([0.5, 0.3, 0.2])
  total = 0.0
  for pair in itertools.product(range(3), repeat=2):
    shares = cluster_share.cluster_share_scores(jnp.array(pair))
    total += p[list(pair)].prod() * float(shares.mean())
  np.testing.assert_allclose(total, np.sum(p**2), rtol=1e-6)


def test_shares_and_their_gates():
  reward = cluster_share.cluster_share_scores
  np.testing.assert_allclose(
    reward(jnp.array([0, 0, 1, 2])), [0.5, 0.5, 0.25, 0.25]
  )
  np.testing.assert_array_equal(reward(jnp.array([0, 1, 2, 3])), 0)
  np.testing.assert_array_equal(reward(jnp.array([0, -1, -1, -1])), 0)
  np.testing.assert_allclose(
    reward(jnp.array([4, 4, -1, -1])), [0.5, 0.5, 0, 0]
  )
  np.testing.assert_array_equal(reward(jnp.array([4, 4, 1, 1]), high=0.5), 0)
  np.testing.assert_array_equal(reward(jnp.array([4, 4, 4, 4]), low=0.1), 0)
  # The answer of the only sample occurs once.
  only = jnp.array([[True, False], [False, False]])
  np.testing.assert_array_equal(reward(jnp.array([[4, 4]] * 2), only), 0)


@pytest.mark.worked_example(
  "reward:cluster_share", "function:cluster_share.cluster_share_scores"
)
def test_shares_between_two_bounds_of_the_entropy():
  """Entropies log 2, 0 and, where no answer occurs twice, log 4."""
  answers = jnp.array([[4, 4, 1, 1, 4], [6, 6, 6, 6, 0], [1, 2, -1, 3, 3]])
  rollout = worked_example.rollout(
    np.zeros((3, 5)),
    sample_mask=jnp.array([[True] * 4 + [False]] * 3),
    extras={"task/answer_ids": answers},
  )
  half, one, none = [0.5] * 4 + [0], [1] * 4 + [0], [0] * 5
  value = worked_example.reward("cluster_share", rollout)
  np.testing.assert_allclose(value, [half, one, none])
  value = worked_example.reward("cluster_share", rollout, low=0.1, high=0.8)
  np.testing.assert_allclose(value, [half, none, none])
  # Both bounds belong to the range.
  value = worked_example.reward("cluster_share", rollout, high=0.0)
  np.testing.assert_allclose(value, [none, one, none])
  value = cluster_share.cluster_share_scores(jnp.array([5, 5, -1, 8]))
  np.testing.assert_allclose(value, [0.5, 0.5, 0, 0.25])
