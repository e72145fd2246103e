"""Tests of `rewards.text.embedding_similarity`."""

import jax.numpy as jnp
import numpy as np

from rewards.text import embedding_similarity


def test_cosine_is_of_the_angle_alone():
  a = jnp.array([[1.0, 2.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
  b = jnp.array([[10.0, 20.0], [0.0, 3.0], [1.0, 1.0], [-2.0, -2.0]])
  result = embedding_similarity.cosine(a, b)
  np.testing.assert_allclose(result, [1, 0, 0, -1], atol=1e-6)
  np.testing.assert_allclose(
    embedding_similarity.cosine(7 * a, b), result, atol=1e-6
  )
