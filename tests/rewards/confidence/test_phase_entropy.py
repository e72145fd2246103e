"""Tests of `rewards.confidence.phase_entropy`."""

import jax.numpy as jnp
import numpy as np

from rewards.confidence import phase_entropy


def test_entropy_of_thought_and_answer():
  entropies = jnp.array([[0.8, 0.8, 9.0, 0.3, 0.3, 5.0]])
  mask = jnp.arange(6) < 5
  completions = jnp.array([[4, 4, 7, 4, 4, 7]])
  end = phase_entropy.first_position(completions, mask, 7)
  assert end == 2
  reward = phase_entropy.phase_entropy_scores
  np.testing.assert_allclose(
    reward(jnp.array([1]), entropies, mask, end), 0.5, rtol=1e-6
  )
  assert reward(jnp.array([0]), entropies, mask, end, 0.25) == 0.25
  assert reward(jnp.array([1]), entropies, mask, end, alpha=9.0) == 1
  same = jnp.full((1, 6), 0.4)
  np.testing.assert_allclose(reward(jnp.array([1]), same, mask, end), 1)
  # Without a marker all of it is thought.
  missing = phase_entropy.first_position(completions, mask, 99)
  assert missing == 6
  result = reward(jnp.array([1]), same, mask, missing)
  np.testing.assert_allclose(result, 0.6, rtol=1e-6)
