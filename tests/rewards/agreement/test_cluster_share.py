"""Tests of `rewards.agreement.cluster_share`."""

import itertools

import jax.numpy as jnp
import numpy as np

from rewards.agreement import cluster_share


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
