"""Tests of `rewards.controls.opposite`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rewards.controls import opposite
from rl import advantages


def test_the_opposite_charges_for_what_was_paid():
  valid = jnp.array([True, True, True, False])
  rewards = jnp.array([1.0, 0.0, 0.25, jnp.nan])
  result = opposite.opposite_scores(rewards, valid)
  np.testing.assert_allclose(result, [0, 1, 0.75, 0])
  paid = advantages.center(jnp.where(valid, rewards, 0), valid)
  np.testing.assert_allclose(advantages.center(result, valid), -paid, atol=1e-6)


@pytest.mark.worked_example(
  "reward:opposite", "function:opposite.opposite_scores"
)
def test_opposites_of_a_score_and_of_a_component():
  """1 - r; the third sample does not exist."""
  rollout = worked_example.rollout(
    [0.9, 0.25, 0.4],
    sample_mask=jnp.array([[True, True, False]]),
    components={"style": [0.3, 1.0, np.nan]},
  )
  value = worked_example.reward("opposite", rollout)
  np.testing.assert_allclose(value, [[0.1, 0.75, 0]], rtol=1e-5)
  value = worked_example.reward("opposite", rollout, component="style")
  np.testing.assert_allclose(value, [[0.7, 0, 0]], rtol=1e-5)
