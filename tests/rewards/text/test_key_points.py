"""Tests of `rewards.text.key_points`."""

import itertools

import jax.numpy as jnp
import numpy as np

from rewards.text import key_points


def lcs(a, b):
  """By trying every subsequence of `a`, longest first."""
  for size in range(len(a), 0, -1):
    for chosen in itertools.combinations(a, size):
      rest = iter(b)
      if all(x in rest for x in chosen):
        return size
  return 0


def test_longest_common_subsequence_by_brute_force():
  rng = np.random.default_rng(2)
  first = rng.integers(0, 3, (200, 7))
  second = rng.integers(0, 3, (200, 6))
  here = rng.random((200, 7)) < 0.8
  there = rng.random((200, 6)) < 0.8
  found = key_points.longest_common_subsequence(
    *map(jnp.asarray, (first, here, second, there))
  )
  for row in range(200):
    expected = lcs(first[row][here[row]], second[row][there[row]])
    assert found[row] == expected


def test_key_points_in_order():
  wanted = jnp.array([[[1, 2, 3]], [[4, 5, 0]]])
  wanted_mask = wanted > 0

  def score(first, second):
    found = jnp.array([[first], [second]])
    return float(key_points.key_points(found, found > 0, wanted, wanted_mask))

  assert score([1, 2, 3, 0], [4, 5, 0, 0]) == 1
  assert score([0] * 4, [0] * 4) == 0  # empty
  np.testing.assert_allclose(score([3, 2, 1, 0], [4, 5, 0, 0]), (1 / 3 + 1) / 2)
  stuffed = score([1, 2, 3, 1], [4, 5, 4, 5])  # keyword-stuffed
  assert stuffed < 1
  assert (
    key_points.key_points(
      wanted, wanted_mask, wanted, jnp.zeros_like(wanted_mask)
    )
    == 0
  )


def test_the_best_of_several_references():
  wanted = jnp.array([[[1, 2], [2, 1]]])
  found = jnp.array([[[2, 1], [2, 1]]])
  here = jnp.ones((1, 2, 2), bool)
  assert key_points.key_points(found, here, wanted, here) == 1
