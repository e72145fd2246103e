"""Tests of `rewards.length.harmonized_length`."""

import jax.numpy as jnp
import numpy as np

from rewards.length import harmonized_length


def test_shorter_than_the_group_and_its_weakness():
  lengths = jnp.array([50.0, 100.0, 150.0])
  result = harmonized_length.harmonized_length_scores(lengths)
  np.testing.assert_allclose(result, [1, 0, -1 / 3], atol=1e-6)
  assert (
    harmonized_length.harmonized_length_scores(jnp.array([0.0, 9.0]))[0] == 1
  )
