"""Tests of `rewards.text.token_f1`."""

import collections

import jax.numpy as jnp
import numpy as np

from rewards.text import (
  token_f1,
)


def test_f1_of_bags():
  rng = np.random.default_rng(3)
  for _ in range(50):
    a, b = rng.integers(0, 4, 5), rng.integers(0, 4, 6)
    n, m = rng.integers(0, 6), rng.integers(0, 7)
    common = sum(
      (collections.Counter(a[:n]) & collections.Counter(b[:m])).values()
    )
    expected = 2 * common / (n + m) if n + m else 1.0
    result = token_f1.token_f1_scores(
      jnp.asarray(a), jnp.arange(5) < n, jnp.asarray(b), jnp.arange(6) < m
    )
    np.testing.assert_allclose(result, expected, rtol=1e-6)
