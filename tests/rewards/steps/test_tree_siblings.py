"""Tests of `rewards.steps.tree_siblings`."""

import jax.numpy as jnp
import numpy as np

from rewards.steps import tree_siblings


def test_a_tree_of_two_levels():
  leaves = jnp.array([[1.0, 0.0], [0.0, 0.0]])
  here = jnp.ones((2, 2), bool)
  nodes = tree_siblings.node_values(leaves, here)
  np.testing.assert_array_equal(nodes, [0.5, 0])
  np.testing.assert_allclose(
    tree_siblings.node_values(nodes, here[0]), leaves.mean()
  )
  result = tree_siblings.sibling_advantages(leaves, here)
  np.testing.assert_allclose(result, [[1, -1], [0, 0]], atol=1e-5)
  scale = np.sqrt(0.25 * 0.75)
  np.testing.assert_allclose(
    tree_siblings.sibling_advantages(nodes, here[0]),
    np.array([0.25, -0.25]) / scale,
    rtol=1e-5,
  )
  missing = tree_siblings.sibling_advantages(leaves, here.at[0, 1].set(False))
  np.testing.assert_array_equal(missing, 0)
