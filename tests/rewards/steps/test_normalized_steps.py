"""Tests of `rewards.steps.normalized_steps`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.steps import normalized_steps
from rl import advantages

normalized_steps = compiled.functions(normalized_steps)


def test_steps_of_a_group_are_normalised_together():
  rng = np.random.default_rng(3)
  rewards = jnp.asarray(rng.normal(size=(4, 5)), jnp.float32)
  mask = jnp.asarray(rng.random((4, 5)) < 0.7)
  result = normalized_steps.normalize_in_group(rewards, mask)
  every = np.asarray(rewards)[np.asarray(mask)]
  expected = (every - every.mean()) / every.std()
  np.testing.assert_allclose(result[mask], expected, rtol=1e-4, atol=1e-5)
  # The mean of seven times 0.1 is rounded to another number.
  flat = normalized_steps.normalize_in_group(
    jnp.full((4, 5), 0.1), jnp.arange(20).reshape(4, 5) < 7
  )
  np.testing.assert_array_equal(flat, 0)
  # One step per sample is the group's z-score.
  one = normalized_steps.normalize_in_group(
    rewards[:, :1], jnp.ones((4, 1), bool)
  )
  np.testing.assert_allclose(
    one[:, 0], advantages.group_normalize(rewards[:, 0], ddof=0), atol=1e-5
  )


@pytest.mark.worked_example(
  "reward:normalized_steps", "function:normalized_steps.normalize_in_group"
)
def test_z_scores_of_the_steps_of_a_group():
  """Scores 1, 5, 4, 2 of two samples: mean 3, and deviation sqrt(10 / 4)."""
  rollout = worked_example.rollout(
    [1, 2, 3],
    steps=[[1, 1, 1], [1], [1, 1]],
    step_scores=[[1, 5, 4], [2], [7, 9]],
    sample_mask=jnp.array([[True, True, False]]),
  )
  rollout = rollout.replace(
    step_scores=jnp.where(rollout.step_mask, rollout.step_scores, jnp.nan)
  )
  result = worked_example.reward("normalized_steps", rollout)
  target = np.array([[-2, 2, 1], [-1, 0, 0], [0, 0, 0]]) / np.sqrt(2.5)
  np.testing.assert_allclose(result[0], target, rtol=1e-5)
  # (r - mean) / (std + eps), with eps = std = 1e-6
  result = normalized_steps.normalize_in_group(
    jnp.array([[0, 2e-6]]), jnp.ones((1, 2), bool)
  )
  np.testing.assert_allclose(result, [[-0.5, 0.5]], rtol=1e-3)
  result = worked_example.reward("normalized_steps", rollout, eps=1.0)
  np.testing.assert_allclose(
    result[0, 1, 0], -1 / (np.sqrt(2.5) + 1), rtol=1e-6
  )
