"""Confidence intervals and tests of means: bootstrap and Student."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from rl import UsageError

Array = jax.Array
CONFIDENCE = 0.95  # of `student_interval`


def student_interval(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns the 95 % Student's t interval of the mean over the first axis.

  Args:
    values: `[n, ...]`, n independent values, such as one per seed.

  Returns:
    (low, high), each `[...]`; NaN if n is 1.
  """
  # Imported here, because importing it takes a tenth of a second, and training
  # does not need it.
  from scipy import special

  n = len(values)
  if n == 1:  # NumPy would warn
    nan = np.full(np.shape(values)[1:], np.nan)
    return nan, nan
  standard_error = np.std(values, axis=0, ddof=1) / np.sqrt(n)
  half_width = standard_error * special.stdtrit(n - 1, (1 + CONFIDENCE) / 2)
  mean = np.mean(values, axis=0)
  return mean - half_width, mean + half_width


def student_p_value(values: np.ndarray, null: float) -> float:
  """Returns the two-sided p-value of Student's t test that the mean is `null`.

  It is at most 0.05 if `student_interval` does not contain `null`. If all
  values are equal, it is 1 for values of `null`, and else 0.

  Args:
    values: `[n]`, n independent values, such as one per seed; n is at least 2.
    null: mean under the hypothesis.
  """
  # Imported here for the same reason as in `student_interval`.
  from scipy import special

  n = len(values)
  distance = abs(float(np.mean(values)) - null)
  standard_error = float(np.std(values, ddof=1)) / np.sqrt(n)
  if standard_error == 0:
    return float(distance == 0)
  return float(2 * special.stdtr(n - 1, -distance / standard_error))


def discoveries(
  p_values: np.ndarray, rate: float = 1 - CONFIDENCE
) -> np.ndarray:
  """Returns which of m hypotheses the method of Benjamini and Hochberg rejects.

  They are the hypotheses with the i smallest p-values, for the largest i for
  which the i-th of these is at most rate * i / m. If the tests are independent
  or positively dependent, the expected share of wrong rejections among all
  rejections is at most `rate`. Source: Benjamini and Hochberg 1995.

  Args:
    p_values: `[m]`.
    rate: false discovery rate.

  Returns:
    `[m]` bool.
  """
  p_values = np.asarray(p_values, float)
  m = len(p_values)
  ordered = np.sort(p_values)
  passes = ordered <= rate * np.arange(1, m + 1) / m
  return p_values <= np.max(ordered[passes], initial=-np.inf)


@functools.partial(jax.jit, static_argnames=("level", "resamples"))
def bootstrap_interval(
  values: Array, key: Array, level: float = 0.95, resamples: int = 1000
) -> tuple[Array, Array]:
  """Returns the percentile bootstrap interval of the mean over problems.

  Each resample draws N of the N problems with replacement. All C columns use
  the same resamples, so the interval of a column of differences is that of a
  paired comparison.

  Args:
    values: `[N]` or `[N, C]`, C values for each of N problems. NaN marks a
      value that does not exist; means leave it out.
    key: PRNG key. The same key and the same N give the same resamples.
    level: coverage of the interval, between 0 and 1.
    resamples: number of resamples.

  Returns:
    (low, high), each `[]` or `[C]` float32. Resamples in which a column has no
    value are left out; a column without any value has the interval (NaN, NaN).

  Raises:
    UsageError: `level` is not between 0 and 1.

  Source: Efron and Tibshirani 1993, section 13.3.
  """
  if not 0.0 < level < 1.0:
    raise UsageError(f"level = {level} must be greater than 0 and less than 1")
  values = jnp.asarray(values, jnp.float32)
  count = values.shape[0]
  indices = jax.random.randint(key, (resamples, count), 0, count)
  # How often each resample contains each problem, [resamples, N]. With these
  # counts the sums over a resample are one matrix product.
  draws = jax.vmap(lambda row: jnp.bincount(row, length=count))(indices)
  draws = draws.astype(jnp.float32)
  has_value = ~jnp.isnan(values)
  total = jnp.matmul(
    draws, jnp.where(has_value, values, 0.0), precision="highest"
  )
  num_values = jnp.matmul(
    draws, has_value.astype(jnp.float32), precision="highest"
  )
  tails = jnp.array([(1.0 - level) / 2.0, (1.0 + level) / 2.0])
  # A resample without any value is 0 / 0 = NaN.
  low, high = jnp.nanquantile(total / num_values, tails, axis=0)
  return low, high
