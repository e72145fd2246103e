"""The tests of means, and their correction for the number of comparisons."""

import jax
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


def test_the_interval_of_two_values_is_students():
  """Their standard error is half their distance; t of one degree is 12.7."""
  values = np.array([[1.0, 5.0], [3.0, 5.0]])
  low, high = intervals.student_interval(values)
  t = np.tan(0.475 * np.pi)  # the quantile of a Cauchy distribution
  np.testing.assert_allclose(low, [2 - t, 5])
  np.testing.assert_allclose(high, [2 + t, 5])


def test_one_value_has_no_interval():
  for bound in intervals.student_interval(np.ones((1, 3))):
    np.testing.assert_array_equal(bound, np.full(3, np.nan))


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
  # A value that equals its threshold, 0.5 * 1 / 2, passes.
  actual = intervals.discoveries(np.array([0.25, 0.9]), rate=0.5)
  np.testing.assert_array_equal(actual, [True, False])
  assert intervals.discoveries(p_values, rate=0.001).sum() == 0
  assert intervals.discoveries(np.zeros(0)).shape == (0,)
  if hasattr(stats, "false_discovery_control"):
    rng = np.random.default_rng(0)
    p_values = rng.uniform(size=50) ** 3
    np.testing.assert_array_equal(
      intervals.discoveries(p_values),
      stats.false_discovery_control(p_values) <= 0.05,
    )


@pytest.mark.parametrize("settings", [{}, {"level": 0.5, "resamples": 40}])
def test_a_bootstrap_interval_has_the_quantiles_of_resampled_means(settings):
  """A value that does not exist is in no mean; both columns are paired."""
  values = np.array([[0.0, 1.0], [1.0, np.nan], [5.0, np.nan]], np.float32)
  key = jax.random.key(3)
  level, resamples = (
    settings.get("level", 0.95),
    settings.get("resamples", 1000),
  )
  drawn = values[np.asarray(jax.random.randint(key, (resamples, 3), 0, 3))]
  has_value = ~np.isnan(drawn).all(1)
  expected = []
  for column in range(2):
    means = np.nanmean(drawn[has_value[:, column], :, column], axis=1)
    expected.append(np.quantile(means, [(1 - level) / 2, (1 + level) / 2]))
  low, high = intervals.bootstrap_interval(values, key, **settings)
  np.testing.assert_allclose([low, high], np.transpose(expected), rtol=1e-5)


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_a_level_is_between_0_and_1(level):
  with pytest.raises(ValueError, match="must be greater than 0 and less than"):
    intervals.bootstrap_interval(np.ones(2), jax.random.key(0), level=level)
