"""Confidence intervals of means: bootstrap over problems, Student over seeds."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

Array = jax.Array
CONFIDENCE = 0.95


def student_interval(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns Student's 95 % interval of the mean over the first axis."""
  n = len(values)
  error = np.std(values, axis=0, ddof=1) / np.sqrt(n)
  half = error * special.stdtrit(n - 1, (1 + CONFIDENCE) / 2)
  mean = np.mean(values, axis=0)
  return mean - half, mean + half


def bootstrap_interval(
  values: Array, key: Array, level: float = 0.95, resamples: int = 1000
) -> tuple[Array, Array]:
  """Returns the percentile bootstrap interval of the mean over problems.

  Problems are drawn with replacement. All C columns share the draws, so that
  differences between columns stay paired.

  Args:
    values: `[N]` or `[N, C]`, one row per problem. NaN marks a value that a
      problem does not have; it is left out of that column's mean.
    key: PRNG key. The same key and N give the same draws.
    level: coverage, in (0, 1).
    resamples: number of bootstrap resamples.

  Returns:
    (low, high), each `[]` or `[C]` float32.

  Raises:
    ValueError: `level` outside (0, 1).

  Source: Efron and Tibshirani 1993, section 13.3.
  """
  if not 0.0 < level < 1.0:
    raise ValueError(f"level={level} is no coverage; allowed: 0 < level < 1")
  values = jnp.asarray(values, jnp.float32)
  count = values.shape[0]
  indices = jax.random.randint(key, (resamples, count), 0, count)
  # How often each problem was drawn, [resamples, N]: sums become products.
  times = jax.vmap(lambda row: jnp.bincount(row, length=count))(indices)
  times = times.astype(jnp.float32)
  has_value = ~jnp.isnan(values)
  total = jnp.matmul(
    times, jnp.where(has_value, values, 0.0), precision="highest"
  )
  weight = jnp.matmul(times, has_value.astype(jnp.float32), precision="highest")
  tails = jnp.array([(1.0 - level) / 2.0, (1.0 + level) / 2.0])
  low, high = jnp.nanquantile(total / weight, tails, axis=0)
  return low, high
