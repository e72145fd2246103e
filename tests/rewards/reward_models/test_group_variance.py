"""Tests of `rewards.reward_models.group_variance`."""

import jax.numpy as jnp
import numpy as np
import pytest

from rewards.reward_models import group_variance


def test_the_variance_of_each_group_is_numpys():
  rng = np.random.default_rng(11)
  scores, valid = rng.normal(size=(6, 5)), rng.random((6, 5)) < 0.7
  valid[0] = False
  dirty = jnp.asarray(np.where(valid, scores, np.nan))
  result = group_variance.group_variance(dirty, jnp.asarray(valid))
  for s, v, f in zip(scores, valid, result, strict=True):
    np.testing.assert_allclose(f, s[v].var() if v.any() else 0, rtol=1e-5)
  np.testing.assert_array_equal(
    group_variance.group_variance(jnp.full(7, 0.1)), 0
  )


@pytest.mark.worked_example("function:group_variance.group_variance")
def test_variances_of_groups_of_three_and_two():
  """Scores 1, 2, 6 and 3, 7, each with samples that do not exist."""
  nan = jnp.nan
  result = group_variance.group_variance(
    jnp.array([[1, 2, 6, nan], [3, 7, nan, 50]]),
    jnp.array([[True, True, True, False], [True, True, False, False]]),
  )
  np.testing.assert_allclose(result, [14 / 3, 4], rtol=1e-6)
  result = group_variance.group_variance(jnp.array([1, 2, 6]))
  np.testing.assert_allclose(result, 14 / 3, rtol=1e-6)
