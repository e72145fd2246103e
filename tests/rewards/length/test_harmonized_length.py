"""Tests of `rewards.length.harmonized_length`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rewards.length import harmonized_length


def test_shorter_than_the_group_and_its_weakness():
  lengths = jnp.array([50.0, 100.0, 150.0])
  result = harmonized_length.harmonized_length_scores(lengths)
  np.testing.assert_allclose(result, [1, 0, -1 / 3], atol=1e-6)
  assert (
    harmonized_length.harmonized_length_scores(jnp.array([0.0, 9.0]))[0] == 1
  )


@pytest.mark.worked_example(
  "reward:harmonized_length",
  "function:harmonized_length.harmonized_length_scores",
)
def test_lengths_of_two_groups():
  """The means are 6 and 4; the fourth sample of the first does not exist."""
  exists = jnp.array([[True, True, True, False], [True] * 4])
  rollout = worked_example.rollout(
    np.zeros((2, 4)), [[2, 6, 10, 50], [1, 3, 4, 8]], sample_mask=exists
  )
  # clip((mean - |y|) / |y|, -1, 1): 4 / 2 and 3 / 1 are clipped.
  expected = [[1, 0, -0.4, 0], [1, 1 / 3, 0, -0.5]]
  value = worked_example.reward("harmonized_length", rollout)
  np.testing.assert_allclose(value, expected, atol=1e-6)
  # A length of 0 is divided by 1: the mean is 1/2.
  value = harmonized_length.harmonized_length_scores(jnp.array([0, 1]))
  np.testing.assert_allclose(value, [0.5, -0.5], atol=1e-6)
