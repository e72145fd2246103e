"""Tests of `rewards.text.key_points`."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewards.text import key_points


def lcs(a, b):
  """By trying every subsequence of `a`, longest first."""
  for size in range(len(a), 0, -1):
    for chosen in itertools.combinations(a, size):
      rest = iter(b)
      if all(x in rest for x in chosen):
        return size
  return 0


@pytest.mark.worked_example("function:key_points.longest_common_subsequence")
def test_longest_common_subsequence_by_brute_force():
  rng = np.random.default_rng(2)
  first = rng.integers(0, 3, (200, 7))
  second = rng.integers(0, 3, (200, 6))
  here = rng.random((200, 7)) < 0.8
  existing = rng.random((200, 6)) < 0.8
  result = key_points.longest_common_subsequence(
    *map(jnp.asarray, (first, here, second, existing))
  )
  for row in range(200):
    expected = lcs(first[row][here[row]], second[row][existing[row]])
    assert result[row] == expected


@pytest.mark.parametrize("sizes", [(1, 4), (3, 1), (3, 5), (5, 3)])
def test_the_loop_has_the_width_of_the_shorter_list(sizes):
  lists = [jnp.zeros((9, size), int) for size in sizes]
  first, second = ((x, jnp.ones(x.shape, bool)) for x in lists)
  function = key_points.longest_common_subsequence
  np.testing.assert_array_equal(function(*first, *second), [min(sizes)] * 9)
  equations = jax.make_jaxpr(function)(*first, *second).eqns
  (loop,) = [x for x in equations if x.primitive.name == "scan"]
  assert {x.aval.shape for x in loop.outvars} == {(9, min(sizes))}


def test_an_empty_list_has_nothing_in_common():
  lists = jnp.ones((2, 3), int), jnp.ones((2, 3), bool)
  empty = jnp.ones((2, 0), int), jnp.ones((2, 0), bool)
  for pair in ((lists, empty), (empty, lists)):
    result = key_points.longest_common_subsequence(*pair[0], *pair[1])
    np.testing.assert_array_equal(result, [0, 0])


def test_key_points_in_order():
  desired = jnp.array([[[1, 2, 3]], [[4, 5, 0]]])
  wanted_mask = desired > 0

  def score(first, second):
    result = jnp.array([[first], [second]])
    return float(
      key_points.key_points(result, result > 0, desired, wanted_mask)
    )

  assert score([1, 2, 3, 0], [4, 5, 0, 0]) == 1
  assert score([0] * 4, [0] * 4) == 0  # empty
  np.testing.assert_allclose(score([3, 2, 1, 0], [4, 5, 0, 0]), (1 / 3 + 1) / 2)
  stuffed = score([1, 2, 3, 1], [4, 5, 4, 5])  # keyword-stuffed
  assert stuffed < 1
  assert (
    key_points.key_points(
      desired, wanted_mask, desired, jnp.zeros_like(wanted_mask)
    )
    == 0
  )


def test_the_best_of_several_references():
  desired = jnp.array([[[1, 2], [2, 1]]])
  result = jnp.array([[[2, 1], [2, 1]]])
  here = jnp.ones((1, 2, 2), bool)
  assert key_points.key_points(result, here, desired, here) == 1


@pytest.mark.worked_example("function:key_points.key_points")
def test_three_key_points_by_hand():
  """2 of 3 in order; the better of 1/2 and 1; and a point without lists.

  In the second answer one list of the first point is empty, and the only
  keyword of the other one is there; both lists of the second point have 1/2.
  """
  answer = jnp.array(
    [
      [[1, 3, 0, 0], [0, 0, 0, 0]],
      [[6, 5, 0, 0], [5, 5, 0, 0]],
      [[9, 9, 9, 9], [9, 9, 9, 9]],
    ]
  )
  reference = jnp.array(
    [
      [[1, 2, 3], [4, 0, 0]],
      [[5, 6, 0], [5, 5, 0]],
      [[0, 0, 0], [0, 0, 0]],
    ]
  )
  answers = jnp.stack([answer, answer])
  references = jnp.stack(
    [reference, reference.at[0].set(jnp.array([[3, 0, 0], [0, 0, 0]]))]
  )
  answers = answers.at[1, 0, 0].set(jnp.array([3, 0, 0, 0]))
  answers = answers.at[1, 1, 1].set(jnp.array([5, 0, 0, 0]))
  value = key_points.key_points(
    answers, answers > 0, references, references > 0
  )
  np.testing.assert_allclose(
    value, [(2 / 3 + 1) / 2, (1 + 1 / 2) / 2], rtol=1e-6
  )
  # Repeating keywords makes the list of the answer longer: 3 / 4.
  long = answer.at[0, 0].set(jnp.array([1, 2, 2, 3]))
  value = key_points.key_points(long, long > 0, reference, reference > 0)
  np.testing.assert_allclose(value, (3 / 4 + 1) / 2, rtol=1e-6)
