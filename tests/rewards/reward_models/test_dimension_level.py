"""Tests of `rewards.reward_models.dimension_level`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.reward_models import dimension_level
from rl import advantages

dimension_level = compiled.functions(dimension_level)


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


@pytest.mark.worked_example(
  "reward:dimension_level", "function:dimension_level.dimension_level_scores"
)
def test_sum_of_three_z_scores():
  """Confidences -1, -2, -3, relevances 1, 4, 1 and coherences 0, 0, 3."""
  nan = np.nan
  log_probs = [[-1, nan, nan], [-1.5, -2.5, nan], [-2, -3, -4], [-9, -9, -9]]
  rollout = worked_example.rollout(
    np.full(4, 9),
    [1, 2, 3, 3],
    extras={"old/log_probs": [log_probs]},
    components={"a": [0.5, 5, 2, nan], "b": [1.5, 3, 0, 8], "h": [0, 0, 3, 7]},
    sample_mask=jnp.array([[True, True, True, False]]),
  )
  # Deviations (n - 1) from the mean, 1, sqrt(3) and sqrt(3).
  c = np.array([1, 0, -1])
  r = np.array([-1, 2, -1]) / np.sqrt(3)
  h = np.array([-1, -1, 2]) / np.sqrt(3)
  for settings, expected in (
    ({}, (c + r + h) / 3),
    ({"weights": (0.5, 2.0, -1.0)}, 0.5 * c + 2 * r - h),
  ):
    result = worked_example.reward(
      "dimension_level",
      rollout,
      relevances=("a", "b"),
      coherence="h",
      **settings,
    )
    np.testing.assert_allclose(result, [[*expected, 0]], atol=1e-5)
  result = dimension_level.dimension_level_scores(
    jnp.array([-1, -2, -3]), jnp.array([[1], [4], [1]]), jnp.array([0, 0, 3])
  )
  np.testing.assert_allclose(result, (c + r + h) / 3, atol=1e-5)


@pytest.mark.worked_example("function:dimension_level.dimension_level_scores")
def test_relevance_is_a_mean_over_the_pairs_that_exist():
  """Means 1, 4 and 0, for three, one and no pairs of each sample."""
  result = dimension_level.dimension_level_scores(
    jnp.zeros(3),
    jnp.array([[0, 1, 2], [9, 4, 7], [5, 6, 8]]),
    jnp.zeros(3),
    (5.0, 2.0, 3.0),
    jnp.array([[True] * 3, [False, True, False], [False] * 3]),
  )
  # The mean is 5 / 3, and the deviation (n - 1) sqrt(13 / 3).
  z = (np.array([1, 4, 0]) - 5 / 3) / np.sqrt(13 / 3)
  np.testing.assert_allclose(result, 2 * z, rtol=1e-5)
