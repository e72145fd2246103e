"""Intervals of means: over problems by the bootstrap, over seeds by Student."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

Array = jax.Array
CONFIDENCE = 0.95


def student_interval(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Student's 95 % interval of the mean over the first axis."""
  n = len(values)
  error = np.std(values, axis=0, ddof=1) / np.sqrt(n)
  half = error * special.stdtrit(n - 1, (1 + CONFIDENCE) / 2)
  mean = np.mean(values, axis=0)
  return mean - half, mean + half


def bootstrap_interval(
  values: Array, key: Array, level: float = 0.95, resamples: int = 1000
) -> tuple[Array, Array]:
  """Percentile bootstrap interval of the mean over problems.

  Problems are drawn with replacement; all C columns share the draws, so that
  differences between columns keep their pairing.

  Args:
    values: `[N]` or `[N, C]`, one row per problem; NaN marks a value that a
      problem does not have, left out of that column's mean.
    key: PRNG key; the same key and N give the same draws.
    level: coverage, in (0, 1).
    resamples: number of draws.

  Returns:
    (low, high), each `[]` or `[C]` float32.

  Raises:
    ValueError: `level` outside (0, 1).

  Source: Efron and Tibshirani 1993, section 13.3.
  """
  if not 0.0 < level < 1.0:
    raise ValueError(f"level={level} is not a coverage; allowed: 0 < level < 1")
  values = jnp.asarray(values, jnp.float32)
  count = values.shape[0]
  drawn = jax.random.randint(key, (resamples, count), 0, count)
  times = jax.vmap(lambda row: jnp.bincount(row, length=count))(drawn)
  times = times.astype(jnp.float32)
  known = ~jnp.isnan(values)
  total = jnp.matmul(times, jnp.where(known, values, 0.0), precision="highest")
  weight = jnp.matmul(times, known.astype(jnp.float32), precision="highest")
  tails = jnp.array([(1.0 - level) / 2.0, (1.0 + level) / 2.0])
  low, high = jnp.nanquantile(total / weight, tails, axis=0)
  return low, high
