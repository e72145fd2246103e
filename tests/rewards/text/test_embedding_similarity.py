"""Tests of `rewards.text.embedding_similarity`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rewards.text import embedding_similarity

embedding_similarity = compiled.functions(embedding_similarity)


def test_cosine_is_of_the_angle_alone():
  a = jnp.array([[1.0, 2.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
  b = jnp.array([[10.0, 20.0], [0.0, 3.0], [1.0, 1.0], [-2.0, -2.0]])
  result = embedding_similarity.cosine(a, b)
  np.testing.assert_allclose(result, [1, 0, 0, -1], atol=1e-6)
  np.testing.assert_allclose(
    embedding_similarity.cosine(7 * a, b), result, atol=1e-6
  )


def test_short_vectors_and_zero_vectors():
  """(0.3, 0.4) (0, 0.5) / (0.5 0.5); a zero vector has no slope."""
  pair = jnp.array([0.3, 0.4]), jnp.array([0.0, 0.5])
  value = embedding_similarity.cosine(*pair)
  np.testing.assert_allclose(value, 0.8, rtol=1e-6)
  slopes = jax.grad(embedding_similarity.cosine, (0, 1))
  for vectors in ((pair[0], jnp.zeros(2)), (jnp.zeros(2), pair[1])):
    np.testing.assert_array_equal(slopes(*vectors), 0)


def test_rounding_takes_no_cosine_out_of_its_range():
  x = jnp.asarray(np.random.default_rng(0).normal(size=(500, 5)), jnp.float32)
  np.testing.assert_array_less(embedding_similarity.cosine(x, x), 1 + 1e-9)
  np.testing.assert_array_less(-1 - 1e-9, embedding_similarity.cosine(x, -x))


@pytest.mark.worked_example("function:embedding_similarity.cosine")
def test_cosines_by_hand():
  """(3, 4) (8, 6) / (5 10) = 48/50, its opposite, and pairs without one."""
  nan = np.nan
  first = jnp.array([[3, 4], [-3, -4], [0, 0], [3, nan], [6, 0]])
  mask = jnp.array([True, True, True, False, True])
  value = embedding_similarity.cosine(first, jnp.array([[8, 6]]), mask)
  np.testing.assert_allclose(value, [0.96, -0.96, 0, 0, 0.8], rtol=1e-6)
  answers = jnp.array([[[3, 4], [0, 1], [1, 0]], [[4, 3], [1, 0], [0, 1]]])
  references = jnp.array([[[1, 0]], [[0, 1]]])
  value = embedding_similarity.cosine(answers, references)
  np.testing.assert_allclose(value, [[0.6, 0, 1], [0.6, 0, 1]], rtol=1e-6)
  zero = embedding_similarity.cosine(first[:1], jnp.zeros((1, 2)))
  np.testing.assert_array_equal(zero, 0)
