"""The tests of means, and their correction for the number of comparisons."""

import numpy as np
import pytest
from scipy import stats

from experiments.evaluation import intervals


@pytest.mark.parametrize("null", [0.0, 1.0])
def test_the_p_value_is_that_of_students_test(null):
  values = np.array([0.2, 0.9, 1.4, 2.0])
  expected = stats.ttest_1samp(values, null).pvalue
  actual = intervals.student_p_value(values, null)
  np.testing.assert_allclose(actual, expected, rtol=1e-12)
  low, high = intervals.student_interval(values)
  np.testing.assert_allclose(intervals.student_p_value(values, low), 0.05)
  np.testing.assert_allclose(intervals.student_p_value(values, high), 0.05)


def test_equal_values_are_chance_only_if_they_are_the_null():
  assert intervals.student_p_value(np.full(3, 2.0), 2.0) == 1
  assert intervals.student_p_value(np.full(3, 2.0), 1.0) == 0


def test_the_discoveries_are_those_of_benjamini_and_hochberg():
  """The largest rank that passes decides, even if a smaller one does not."""
  p_values = np.array([0.041, 0.001, 0.9, 0.019, 0.04])
  actual = intervals.discoveries(p_values)
  # Thresholds of the ranks: 0.01, 0.02, 0.03, 0.04, 0.05.
  np.testing.assert_array_equal(actual, [False, True, False, True, False])
  actual = intervals.discoveries(np.where(p_values == 0.041, 0.0399, p_values))
  np.testing.assert_array_equal(actual, [True, True, False, True, True])
  assert intervals.discoveries(np.array([0.05]))[0]
  assert not intervals.discoveries(np.array([0.051]))[0]
  assert intervals.discoveries(p_values, rate=0.001).sum() == 0
  assert intervals.discoveries(np.zeros(0)).shape == (0,)
  if hasattr(stats, "false_discovery_control"):
    rng = np.random.default_rng(0)
    p_values = rng.uniform(size=50) ** 3
    np.testing.assert_array_equal(
      intervals.discoveries(p_values),
      stats.false_discovery_control(p_values) <= 0.05,
    )
