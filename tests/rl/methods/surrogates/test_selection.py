"""Tests of the selection of tokens by rank."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rl.methods.surrogates import selection

selection = compiled.functions(selection)


@pytest.mark.parametrize(
  ("count", "selected"),
  [
    (0, [0, 0, 0, 0]),
    (1, [0, 1, 0, 0]),
    (2, [1, 1, 0, 1]),
    (3, [1, 1, 0, 1]),
    (4, [1, 1, 1, 1]),
    (9, [1, 1, 1, 1]),
  ],
)
def test_the_smallest_values_and_those_that_tie_with_them(count, selected):
  """Values 2, 1, 5 and 2 of two prompts; smaller ones do not exist."""
  values = jnp.array([[[2.0, 1, -7]], [[5, -8, 2]]])
  mask = jnp.array([[[True, True, False]], [[True, False, True]]])
  actual = selection.lowest(values, mask, jnp.float32(count))
  np.testing.assert_array_equal(actual[mask], selected)
  assert not actual[~mask].any()
  # Without an entry that does not exist, the last one is the largest.
  values = jnp.array([[[2.0, 1, 5, 2]]])
  actual = selection.lowest(values, values > 0, jnp.float32(count))
  np.testing.assert_array_equal(actual.ravel(), selected)


def test_covariance_of_tokens_that_exist():
  """A of mean 2 and log pi of mean -3, over two prompts."""
  nan = np.nan
  a = jnp.array([[[1.0, 3, nan]], [[2, 2, 9]]])
  log_probs = jnp.array([[[-1.0, -2, 9]], [[-4, -5, nan]]])
  mask = jnp.array([[[True, True, False]], [[True, True, False]]])
  actual = selection.token_covariance(a, log_probs, mask)
  np.testing.assert_allclose(actual, [[[-2, 1, 0]], [[0, 0, 0]]], atol=1e-6)
