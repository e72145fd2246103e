"""Tests of `rewards.shaping.stretched_with_progress`."""

import jax.numpy as jnp
import numpy as np

from rewards.shaping import stretched_with_progress


def test_stretching_keeps_the_order_and_has_width_1():
  rng = np.random.default_rng(8)
  scores = jnp.asarray(0.8 + 0.01 * rng.random((20, 6)), jnp.float32)
  valid = jnp.asarray(rng.random((20, 6)) < 0.8).at[:, :2].set(True)
  result = np.asarray(stretched_with_progress.stretched(scores, valid))
  for s, f, v in zip(scores, result, valid, strict=True):
    s, f = np.asarray(s)[v], f[v]
    np.testing.assert_array_equal(np.argsort(s), np.argsort(f))
    np.testing.assert_allclose((f.min(), f.max()), (0, 1), atol=1e-6)
  assert not result[~np.asarray(valid)].any()


def test_a_constant_group_is_not_stretched_and_little_not_by_much():
  for group in (jnp.full(4, 0.3), jnp.full(4, 0.3).at[2].set(jnp.nan)):
    valid = jnp.isfinite(group)
    np.testing.assert_array_equal(
      stretched_with_progress.stretched(group, valid), 0
    )
  narrow = jnp.array([0.5, 0.51])
  np.testing.assert_allclose(
    stretched_with_progress.stretched(narrow, least=0.1), [0, 0.1], rtol=1e-4
  )


def test_stretching_comes_with_progress():
  scores = jnp.array([0.8, 0.82, 0.81])

  def blended(progress):
    return stretched_with_progress.progressively_stretched_scores(
      scores, progress
    )

  np.testing.assert_array_equal(blended(0.0), scores)
  np.testing.assert_allclose(blended(1.0), [0, 1, 0.5], atol=1e-4)
  np.testing.assert_allclose(blended(9.0), blended(1.0))
  np.testing.assert_allclose(
    blended(0.25), 0.75 * scores + 0.25 * blended(1.0), rtol=1e-5
  )


def test_the_weakness_of_stretching_is_noise():
  """A hair's breadth between two scores becomes the whole scale."""
  hair = jnp.array([0.5, 0.5 + 1e-6])
  np.testing.assert_allclose(stretched_with_progress.stretched(hair), [0, 1])
