"""Tests of `rewards.text.token_f1`."""

import collections

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, reference_views, worked_example

from rewards.text import token_f1

token_f1 = compiled.functions(token_f1)


@pytest.mark.worked_example("function:token_f1.token_f1_scores")
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


@pytest.mark.worked_example("function:token_f1.token_f1_scores")
def test_f1_of_bags_with_gaps():
  """Common tokens 2 of 2 + 3, 1 of 2 + 1, 0 of 1 + 0 and of 0 + 0."""
  tokens = jnp.array([[5, 5, 5, 7], [5, 5, 6, 7], [5, 5, 5, 5], [5, 5, 5, 5]])
  mask = jnp.array([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]])
  reference = jnp.array([[7, 5, 6], [5, 5, 5], [5, 5, 5], [5, 5, 5]])
  reference_mask = jnp.array([[1, 1, 1], [0, 0, 1], [0, 0, 0], [0, 0, 0]])
  value = token_f1.token_f1_scores(
    tokens, mask == 1, reference, reference_mask == 1
  )
  np.testing.assert_allclose(value, [4 / 5, 2 / 3, 0, 1], rtol=1e-6)


@pytest.mark.worked_example("reward:token_f1")
def test_f1_of_completions_and_references():
  """Common tokens 1 of 4 + 2, 3 of 4 + 3, and 0 of 1 + 1; 2 c / (n + m)."""
  reference = np.array([[[1, 3, 1], [1, 1, 2], [4, 5, 5], [1, 1, 1]]])
  completions = jnp.array([[[1, 1, 2, 7], [2, 1, 1, 1], [5, 4, 4, 4], [1] * 4]])
  rollout = reference_views.rollout(reference, lengths=[4, 4, 1, 4])
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(completions=completions)
  )
  value = worked_example.reward("token_f1", rollout)
  np.testing.assert_allclose(value[:, :3], [[2 / 6, 6 / 7, 0]], rtol=1e-6)
