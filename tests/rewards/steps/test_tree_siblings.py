"""Tests of `rewards.steps.tree_siblings`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rewards.steps import tree_siblings

tree_siblings = compiled.functions(tree_siblings)


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
  # Equal siblings have no slope.
  slope = jax.grad(
    lambda leaves: tree_siblings.sibling_advantages(leaves, here)[:, 0].sum()
  )(leaves)
  np.testing.assert_array_equal(slope[1], 0)
  assert (jnp.abs(slope[0]) > 0).all()


@pytest.mark.worked_example(
  "function:tree_siblings.node_values",
  "function:tree_siblings.sibling_advantages",
)
def test_siblings_that_exist():
  """Values 1, 0, 1/2, of mean 1/2; 1, 0 of mean 1/2; and 1/4, 3/4, 1/8."""
  nan = jnp.nan
  values = jnp.array([[1, 0, 0.5, 9], [1, 0, nan, nan], [0.25, 0.75, 0.125, 1]])
  valid = jnp.array([[True] * 3 + [False], [True, True] + [False] * 2])
  valid = jnp.concatenate([valid, valid[:1]])
  means = np.array([0.5, 0.5, 0.375])
  np.testing.assert_allclose(
    tree_siblings.node_values(values, valid), means, rtol=1e-6
  )
  # (V - m) / sqrt(m (1 - m))
  third = np.array([-0.125, 0.375, -0.25, 0]) / np.sqrt(0.375 * 0.625)
  expected = [[1, -1, 0, 0], [1, -1, 0, 0], third]
  np.testing.assert_allclose(
    tree_siblings.sibling_advantages(values, valid), expected, atol=1e-5
  )
  # eps is added to the root: m = 1/2, so 1/2 / (1/2 + 3/2).
  two = jnp.array([1, 0]), jnp.array([True, True])
  result = tree_siblings.sibling_advantages(*two, 1.5)
  np.testing.assert_array_equal(result, [0.25, -0.25])
