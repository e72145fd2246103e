"""Tests of `rl.masked`, against numpy on the entries that exist."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rl import advantages, masked
from rl.masked import mask_or_ones

masked = compiled.functions(masked)

NAN = float("nan")
# Three rows of four entries; those that do not exist are NaN. The first row
# has three entries, the second one, and the third none.
X = jnp.array(
  [[4.0, NAN, -2.0, 7.0], [NAN, 5.0, NAN, NAN], [NAN, NAN, NAN, NAN]]
)
MASK = ~jnp.isnan(X)
COLUMNS = X.T  # reduced over its first axis
close = np.testing.assert_allclose


@pytest.mark.parametrize(
  ("statistic", "expected"),
  [
    (lambda x, mask, **axes: masked.count(mask, **axes), [3, 1, 0]),
    (masked.sum, [9, 5, 0]),
    (masked.mean, [3, 5, 0]),
    (masked.std, [np.sqrt((1 + 25 + 16) / 3), 0, 0]),
    (masked.min, [-2, 5, np.inf]),
    (masked.max, [7, 5, -np.inf]),
    (masked.is_constant, [False, True, True]),
    (masked.median, [4, 5, 0]),
    (
      lambda x, mask, **axes: masked.quantile(x, mask, 0.25, **axes),
      [1, 5, 0],
    ),
  ],
)
def test_a_statistic_is_over_the_last_axis_or_over_a_given_one(
  statistic, expected
):
  result = statistic(X, MASK)
  assert result.shape == (3,)
  close(result, expected, rtol=1e-6)
  keeping = statistic(COLUMNS, MASK.T, axis=0, keepdims=True)
  assert keeping.shape == (1, 3)
  close(keeping[0], expected, rtol=1e-6)


def test_a_statistic_may_be_over_several_axes():
  # 4 - 2 + 7 + 5 = 14; the squares of the deviations from 3.5 sum to 45.
  axes = (0, 1)
  assert masked.count(MASK, axes) == 4
  close(masked.mean(X, MASK, axes), 3.5)
  close(masked.std(X, MASK, axes), np.sqrt(45 / 4), rtol=1e-6)
  close(masked.std(X, MASK, axes, ddof=1), np.sqrt(45 / 3), rtol=1e-6)
  close(masked.median(X, MASK, axes), 4.5)
  assert masked.count(MASK).dtype == jnp.float32


def test_the_standard_deviation_is_0_for_as_many_entries_as_ddof():
  x = jnp.array([[1.0, 5.0, NAN, NAN], [1.0, 5.0, 9.0, NAN]])
  mask = ~jnp.isnan(x)
  close(masked.std(x, mask, ddof=1), [np.sqrt(8), 4], rtol=1e-6)
  close(masked.std(x, mask, ddof=2), [0, np.sqrt(32)], rtol=1e-6)
  close(masked.std(x, mask, ddof=3), [0, 0])


def test_the_standard_deviation_of_equal_entries_is_0_with_a_finite_slope():
  """0.1 has no finite binary form: its float32 mean leaves a residue."""
  x, mask = jnp.full(7, 0.1), jnp.ones(7, bool)
  value, slope = jax.value_and_grad(masked.std)(x, mask)
  assert value == 0
  np.testing.assert_array_equal(slope, np.zeros(7))
  # The variance of these is exactly 0, where the root has no finite slope.
  slope = jax.grad(masked.std)(jnp.ones(2), jnp.ones(2, bool))
  assert slope.tolist() == [0, 0]
  slope = jax.grad(masked.std)(jnp.array([1.0, 3.0]), jnp.ones(2, bool))
  close(slope, [-0.5, 0.5])


def test_entries_are_constant_if_they_differ_by_rounding_alone():
  """Totals that are summed in another order differ in their last bits."""
  sum_of_parts = jnp.float32(0.3) + jnp.float32(0.4)
  assert sum_of_parts != jnp.float32(0.7)
  x = jnp.array(
    [
      [1.0, 1.0, 2.0],
      [0.7, sum_of_parts, 2.0],
      [-1.0, -1.0 - 2**-20, 2.0],  # 8 eps
      [1.0, 1.0 + 9 * 2**-23, 2.0],
      [0.0, 1e-30, 2.0],  # small beside nothing
      [-0.7, 0.7, 2.0],
      [jnp.inf, 1.0, 2.0],
      [jnp.inf, jnp.inf, 2.0],
    ]
  )
  mask = jnp.array([[True, True, False]] * len(x))
  expected = [True, True, True, False, False, False, False, True]
  assert masked.is_constant(x, mask).tolist() == expected
  assert masked.is_equal(x[:, 0], x[:, 1]).tolist() == expected
  assert masked.is_equal(jnp.array([7, 2**24]), jnp.array([7, 2**24 + 1]))[0]
  assert not masked.is_equal(jnp.array([2**24]), jnp.array([2**24 + 1]))[0]


def test_equal_totals_have_no_deviation_and_no_advantage():
  x = jnp.array([0.7, jnp.float32(0.3) + jnp.float32(0.4), 0.7])
  mask = jnp.ones(3, bool)
  assert masked.std(x, mask) == 0
  assert masked.whiten(x, mask, -1).tolist() == [0, 0, 0]
  assert advantages.center(x).tolist() == [0, 0, 0]
  assert advantages.group_normalize(x, eps=0.0).tolist() == [0, 0, 0]


@pytest.mark.parametrize(("q", "expected"), [(0, -2), (0.5, 4), (1, 7)])
def test_the_smallest_and_the_largest_quantile_are_the_extremes(q, expected):
  assert masked.quantile(X[0], MASK[0], q) == expected
  garbage = jnp.where(MASK[0], X[0], 100.0 * (q - 0.5))
  assert masked.quantile(garbage, MASK[0], q) == expected


@pytest.mark.parametrize("q", [-0.01, 1.01, NAN])
def test_a_quantile_outside_of_0_to_1_is_refused(q):
  with pytest.raises(ValueError, match=f"quantile = {q} must be between"):
    masked.quantile(X, MASK, q)


def test_whitening_divides_by_the_root_of_the_variance_plus_eps():
  """Entries that do not exist, and constant rows, are 0."""
  deviations = np.array([1, 0, -5, 4])
  zeros = np.zeros(4)
  close(
    masked.whiten(X, MASK, -1),
    [deviations / np.sqrt(14), zeros, zeros],
    rtol=1e-6,
  )
  close(
    masked.whiten(X, MASK, -1, ddof=1, eps=4.0),
    [deviations / np.sqrt(21 + 4), zeros, zeros],
    rtol=1e-6,
  )
  # The default eps is far below a variance of 1e-4.
  small = masked.whiten(jnp.array([0.0, 0.02]), jnp.ones(2, bool), 0)
  close(small, [-1, 1], rtol=1e-3)
  tiny = masked.whiten(jnp.array([0.0, 2e-4]), jnp.ones(2, bool), 0)
  close(tiny, np.array([-1, 1]) / np.sqrt(2), rtol=1e-3)
  columns = masked.whiten(COLUMNS, MASK.T, 0)
  close(columns, masked.whiten(X, MASK, 1).T)


def test_no_mask_means_that_all_entries_exist():
  np.testing.assert_array_equal(
    masked.mask_or_ones(X, None), np.ones((3, 4), bool)
  )
  assert mask_or_ones(X, MASK) is MASK
  assert masked.mask_or_ones(X, None).dtype == bool


def test_the_next_entry_that_exists_is_found_on_the_last_axis():
  mask = jnp.array([[[1, 0, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 0, 0, 1]]], bool)
  index, has_next = masked.following(mask)
  assert index.tolist() == [[[3, 3, 3, 4, 4], [4, 4, 4, 4, 4], [1, 4, 4, 4, 4]]]
  assert has_next.astype(int).tolist() == [
    [[1, 1, 1, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 0]]
  ]


def test_runs_of_ids_end_before_another_id_and_are_not_interrupted():
  """By entries that do not exist, or that have a negative id."""
  ids = jnp.array([[0, 0, 1, 0, 2, -1, 2], [3, 3, 3, -1, 0, 0, 0]])
  mask = jnp.array([[1, 1, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 0]], bool)
  assert masked.run_ends(ids, mask).astype(int).tolist() == [
    [0, 0, 0, 1, 0, 0, 1],
    [0, 0, 1, 0, 0, 1, 0],
  ]
