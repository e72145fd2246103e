"""Tests of `rewards.shaping.stretched_with_progress`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.shaping import stretched_with_progress

stretched_with_progress = compiled.functions(stretched_with_progress)


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
  slope = jax.grad(lambda x: stretched_with_progress.stretched(x)[0])
  np.testing.assert_array_equal(slope(jnp.full(4, 0.3)), 0)
  empty = jnp.zeros((2, 3), bool).at[1, :2].set(True)
  np.testing.assert_array_equal(
    stretched_with_progress.stretched(jnp.array([[1, 2, 3]] * 2), empty),
    [[0, 0, 0], [0, 1, 0]],
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


def test_stretching_takes_at_least_one_training_step():
  rollout = worked_example.rollout([0.5, 0.75], step=jnp.int32(1))
  value = worked_example.reward("stretched_with_progress", rollout, steps=1)
  np.testing.assert_array_equal(value, [[0, 1]])
  with pytest.raises(ValueError, match="steps = 0 training steps must be at"):
    worked_example.reward("stretched_with_progress", rollout, steps=0)


def test_the_weakness_of_stretching_is_noise():
  """A hair's breadth between two scores becomes the whole scale."""
  hair = jnp.array([0.5, 0.5 + 1e-6])
  np.testing.assert_allclose(stretched_with_progress.stretched(hair), [0, 1])


@pytest.mark.worked_example(
  "reward:stretched_with_progress",
  "function:stretched_with_progress.stretched",
  "function:stretched_with_progress.progressively_stretched_scores",
)
@pytest.mark.parametrize(
  ("step", "progress"), [(0, 0), (3, 0.25), (12, 1), (15, 1)]
)
def test_stretching_of_two_groups_over_12_training_steps(step, progress):
  """Ranges 0.5, of which one sample does not exist, and 0.125."""
  rollout = worked_example.rollout(
    [[0.25, 0.75, 0.5, 9], [0.5, 0.625, 0.5625, 0.5]],
    components={"a": [[0.25, 0.5, 1, np.nan], [0.75, 0.75, 0.75, 0.75]]},
    sample_mask=jnp.array([[True, True, True, False], [True] * 4]),
    step=jnp.int32(step),
  )
  # (1 - w) s + w (s - low) / (high - low)
  raw = np.array([[0.25, 0.75, 0.5, 0], [0.5, 0.625, 0.5625, 0.5]])
  unit = np.array([[0, 1, 0.5, 0], [0, 1, 0.5, 0]])
  np.testing.assert_allclose(
    worked_example.reward("stretched_with_progress", rollout, steps=12),
    (1 - progress) * raw + progress * unit,
    rtol=1e-6,
  )
  # (1 - w) a + w (a - low) / max(high - low, 1); equal scores are not stretched
  raw = np.array([[0.25, 0.5, 1, 0], [0.75] * 4])
  unit = np.array([[0, 0.25, 0.75, 0], [0] * 4])
  result = worked_example.reward(
    "stretched_with_progress", rollout, steps=12, component="a", least=1.0
  )
  np.testing.assert_allclose(
    result, (1 - progress) * raw + progress * unit, rtol=1e-6
  )
