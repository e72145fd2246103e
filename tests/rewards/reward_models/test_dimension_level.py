"""Tests of `rewards.reward_models.dimension_level`."""

import jax.numpy as jnp
import numpy as np

from rewards.reward_models import dimension_level
from rl import advantages


def test_one_hot_weights_recover_each_side():
  rng = np.random.default_rng(9)
  confidence, coherence = (jnp.asarray(x) for x in rng.normal(size=(2, 3, 5)))
  relevances = jnp.asarray(rng.normal(size=(3, 5, 3)))
  requested = jnp.broadcast_to(jnp.array([True, True, False]), (3, 5, 3))
  relevances = jnp.where(requested, relevances, jnp.nan)
  sides = confidence, relevances[..., :2].mean(-1), coherence
  for i, side in enumerate(sides):
    weights = tuple(float(i == j) for j in range(3))
    result = dimension_level.dimension_level_scores(
      confidence, relevances, coherence, weights, requested
    )
    np.testing.assert_allclose(
      result, advantages.group_normalize(side), atol=2e-5
    )


def test_no_side_is_swamped_by_the_scale_of_another():
  rng = np.random.default_rng(10)
  confidence, coherence = (jnp.asarray(x) for x in rng.normal(size=(2, 2, 6)))
  relevances = jnp.asarray(rng.normal(size=(2, 6, 3)))
  reference = dimension_level.dimension_level_scores(
    confidence, relevances, coherence
  )
  scaled = dimension_level.dimension_level_scores(
    100 * confidence + 7, 0.1 * relevances, coherence
  )
  np.testing.assert_allclose(scaled, reference, atol=1e-4)


def test_the_weakness_of_dimensions_is_fluent_nonsense():
  """Wrong and high on all sides beats right and clumsy; half of it does not."""
  sides, correct = jnp.array([0.9, 0.1]), np.array([0.0, 1.0])
  result = dimension_level.dimension_level_scores(
    sides, jnp.stack([sides] * 3, -1), sides
  )
  alone, added = np.asarray(result), correct + 0.5 * np.asarray(result)
  assert alone[0] > alone[1]
  assert added[1] > added[0]
