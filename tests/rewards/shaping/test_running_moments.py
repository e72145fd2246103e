"""Tests of `rewards.shaping.running_moments`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

import rewards
from rewards.shaping import ceiling, running_moments

running_moments = compiled.functions(running_moments)


def test_streaming_moments_are_those_of_all_batches():
  rng = np.random.default_rng(1)
  batches = [rng.normal(5, 3, size) for size in ((4,), (2, 3), (1,), (50,))]
  moments = running_moments.init_moments()
  for batch in batches:
    moments = running_moments.observe(moments, jnp.asarray(batch, jnp.float32))
  every = np.concatenate([batch.ravel() for batch in batches])
  np.testing.assert_allclose(moments.mean, every.mean(), rtol=1e-5)
  np.testing.assert_allclose(moments.std, every.std(), rtol=1e-5)
  assert moments.low == np.float32(every.min())
  assert moments.high == np.float32(every.max())
  scores = jnp.asarray(every, jnp.float32)
  np.testing.assert_allclose(
    running_moments.standardized_scores(scores, moments),
    (every - every.mean()) / every.std(),
    atol=1e-5,
  )
  unit = running_moments.min_max_scores(scores, moments)
  assert (unit.min(), unit.max()) == (0, 1)
  within = running_moments.clipped_scores(scores, moments)
  np.testing.assert_allclose(jnp.ptp(within), 2 * every.std(), rtol=1e-5)


def test_moments_of_one_score_and_of_none():
  moments = running_moments.observe(
    running_moments.init_moments(), jnp.array([2.0])
  )
  assert (
    running_moments.standardized_scores(jnp.array([3.0]), moments) == 1
  )  # over 1
  with jax.debug_nans(True):  # 0 of a width of 0
    unit = running_moments.min_max_scores(jnp.array([2.0, 3.0]), moments)
  np.testing.assert_array_equal(unit, 0)
  same = running_moments.observe(
    moments, jnp.array([jnp.nan, 9.0]), jnp.zeros(2, bool)
  )
  np.testing.assert_array_equal(jnp.stack(same), jnp.stack(moments))
  assert ceiling.ceiling_scores(jnp.float32(9.0), 2.0) == 2


def test_moments_and_range_of_negative_scores():
  moments = running_moments.observe(
    running_moments.init_moments(), jnp.array([-0.75, -0.25])
  )
  expected = [2, -0.5, 0.125, -0.75, -0.25]
  np.testing.assert_array_equal(jnp.stack(moments), expected)
  unit = running_moments.min_max_scores(jnp.array([-0.5, -0.25]), moments)
  np.testing.assert_array_equal(unit, [0.5, 1])


@pytest.mark.parametrize(
  ("squares", "low", "high"),
  [
    (1e-12, 0.5, 0.5),  # equal scores, and a rounding error of their mean
    (0.0, 0.5, 0.5 + 1e-7),  # squares too small for a float
  ],
)
def test_scores_are_not_divided_by_a_deviation_of_0(squares, low, high):
  moments = running_moments.Moments(
    *(jnp.float32(x) for x in (2.0, 0.5, squares, low, high))
  )
  result = running_moments.standardized_scores(jnp.array([0.75]), moments)
  np.testing.assert_array_equal(result, [0.25])


@pytest.mark.worked_example(
  "reward:standardized",
  "reward:clipped",
  "reward:min_max",
  "function:running_moments.standardized_scores",
  "function:running_moments.clipped_scores",
  "function:running_moments.min_max_scores",
)
@pytest.mark.parametrize(
  ("name", "first", "second", "component"),
  [
    # Mean 2 and variance (1 + 0 + 1) / 3; then mean 4 and variance 40 / 5.
    (
      "standardized",
      np.array([-1, 1, 0]) / np.sqrt(2 / 3),
      np.array([5, 1]) / np.sqrt(8),
      np.array([-1, -1, 2]) / np.sqrt(2),
    ),
    (
      "clipped",
      [2 - np.sqrt(2 / 3), 2 + np.sqrt(2 / 3), 2],
      [4 + np.sqrt(8), 5],
      [0, 0, 3 + np.sqrt(18)],
    ),
    ("min_max", [0, 1, 0.5], [1, 0.5], [0, 0, 1]),
  ],
)
def test_two_batches_and_a_component(name, first, second, component):
  """Scores 1, 3, 2; then 9, 5, and a sample that does not exist."""
  exists = jnp.array([[True, True, True]])
  batches = [
    worked_example.rollout([1, 3, 2], components={"a": [0, 0, 9]}),
    worked_example.rollout(
      [9, 5, 30],
      components={"a": [1, 2, 3]},
      sample_mask=exists.at[0, 2].set(False),
    ),
  ]
  transform = rewards.get(name)
  state = transform.init()
  for rollout, expected in zip(batches, (first, second), strict=True):
    result, state = jax.jit(transform.apply)(None, rollout, state)
    np.testing.assert_allclose(result[0, : len(expected)], expected, rtol=1e-5)
  # Components 0, 0, 9: mean 3 and variance (9 + 9 + 36) / 3.
  result = worked_example.reward(name, batches[0], component="a")
  np.testing.assert_allclose(result[0], component, rtol=1e-5)
