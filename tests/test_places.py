"""Places in rows of bools, 32 entries at a time, against one at a time."""

import jax
import numpy as np
import pytest

from rewards import places
from rl import masked


@pytest.mark.parametrize("size", [1, 2, 31, 32, 33, 64, 100, 1025])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
def test_places_are_those_of_a_scan(size, share):
  mask = np.random.default_rng(size).random((3, 2, size)) < share
  index, linked = jax.jit(places.following)(mask)
  expected_index, expected = masked.following(mask)
  np.testing.assert_array_equal(linked, expected)
  np.testing.assert_array_equal(index, expected_index)
  count = jax.jit(places.count_before)(mask)
  np.testing.assert_array_equal(count, np.cumsum(mask, -1) - mask)


def test_one_row_is_enough():
  index, linked = places.following(np.array([True, False, True, False]))
  np.testing.assert_array_equal(index[:2], 2)
  np.testing.assert_array_equal(linked, [True, True, False, False])
