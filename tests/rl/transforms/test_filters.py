"""Tests of `rl.transforms.filters`, sample by sample."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rl.transforms import filters

# Groups: mixed; all right; all wrong; unknown apart from a sample that does
# not exist; right apart from such a sample, which is wrong and unfinished.
CORRECT = np.array(
  [
    [1, 0, -1, 1, 0],
    [1, 1, 1, 1, 1],
    [0, 0, 0, 0, 0],
    [-1, -1, -1, -1, 1],
    [1, 1, -1, -1, 0],
  ]
)
EXISTS = np.ones((5, 5), bool)
EXISTS[3:, 4] = False
FINISHED = np.array(
  [[1, 1, 1, 0, 1], [1] * 5, [0] * 5, [1] * 5, [1, 1, 1, 1, 0]], bool
)
ROLLOUT = worked_example.rollout(
  np.zeros((5, 5)),
  correct=CORRECT,
  finished=jnp.asarray(FINISHED),
  sample_mask=jnp.asarray(EXISTS),
)


def _values(filter_of_samples, rollout=ROLLOUT):
  """Returns the value of a filter for each sample, or group if it is one."""
  values = worked_example.apply(filter_of_samples, rollout)
  assert values.dtype == bool
  assert values.shape == rollout.scores.shape
  return values


def _group_values(filter_of_samples, rollout=ROLLOUT):
  values = _values(filter_of_samples, rollout)
  np.testing.assert_array_equal(
    values, values[:, :1].repeat(values.shape[1], 1)
  )
  return values[:, 0].tolist()


@pytest.mark.parametrize(
  ("subset", "verdicts"),
  [
    (filters.known_verdict, (0, 1)),
    (filters.right_verdict, (1,)),
    (filters.wrong_verdict, (0,)),
  ],
)
def test_subsets_are_those_of_the_verdict(subset, verdicts):
  expected = np.isin(CORRECT, verdicts)
  np.testing.assert_array_equal(subset(ROLLOUT), expected)
  np.testing.assert_array_equal(_values(filters.only(subset)), expected)


def test_samples_and_groups_are_kept_if_they_are_finished():
  np.testing.assert_array_equal(_values(filters.finished()), FINISHED)
  # The last group is unfinished only where no sample exists.
  values = _group_values(filters.all_finished())
  assert values == [False, True, False, True, True]


def test_mixed_groups_have_a_right_and_a_wrong_sample_that_exist():
  values = _group_values(filters.mixed_verdicts())
  assert values == [True, False, False, False, False]


@pytest.mark.parametrize(
  ("bounds", "expected"),
  [
    # The shares are 2/4, 1, 0, unknown and 1.
    ({}, [True, False, False, False, False]),
    ({"low": 0.0}, [True, False, True, False, False]),
    ({"high": 1.0}, [True, True, False, False, True]),
    ({"low": 0.5, "high": 0.5}, [True, False, False, False, False]),
    ({"low": 0.505}, [False] * 5),
    ({"high": 0.495}, [False] * 5),
  ],
)
def test_groups_are_kept_if_their_share_of_right_samples_is_between(
  bounds, expected
):
  """The bounds are part of the range."""
  assert _group_values(filters.accuracy_between(**bounds)) == expected


def test_shares_at_the_bounds_are_kept_in_spite_of_rounding():
  """In float32, 1/5 is not the float64 0.2, for example."""
  for n in (5, 7):
    correct = np.tril(np.ones((n + 1, n), int), -1)  # 0 to n are right
    rollout = worked_example.rollout(np.zeros((n + 1, n)), correct=correct)
    for right in range(n + 1):
      bound = right / n
      values = _group_values(
        filters.accuracy_between(low=bound, high=bound), rollout
      )
      assert np.flatnonzero(values).tolist() == [right]


def test_by_default_shares_from_a_fifth_to_four_fifths_are_kept():
  correct = np.tril(np.ones((11, 10), int), -1)
  rollout = worked_example.rollout(np.zeros((11, 10)), correct=correct)
  values = _group_values(filters.accuracy_between(), rollout)
  assert np.flatnonzero(values).tolist() == [2, 3, 4, 5, 6, 7, 8]
