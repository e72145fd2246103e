"""Tests of `rewards.confidence.phase_entropy`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.confidence import phase_entropy

phase_entropy = compiled.functions(phase_entropy)


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


@pytest.mark.worked_example(
  "reward:phase_entropy",
  "function:phase_entropy.first_position",
  "function:phase_entropy.phase_entropy_scores",
)
def test_entropies_of_two_phases_by_hand():
  """Thoughts of mean 0.8, 0.3, 0.2 and answers of mean 0.3, 0 and 0.6."""
  nan = np.nan
  entropies = np.array(
    [
      [0.9, 0.7, 5.0, 0.1, 0.5],  # marker at 2
      [0.3, 0.2, 0.4, nan, nan],  # no marker: all is thought
      [0.2, 5.0, 0.6, nan, nan],  # marker at 1
      [0.9, 5.0, 0.1, nan, nan],  # wrong
    ]
  )
  tokens = jnp.array([[4, 4, 7, 4, 7], [4, 4, 4, 7, 7], [4, 7, 4, 4, 4]])
  tokens = jnp.concatenate([tokens, tokens[2:]])
  rollout = worked_example.rollout(
    np.zeros(4),
    [5, 3, 3, 3],
    correct=[1, 1, 1, 0],
    extras={"old/entropy": entropies[None]},
  )
  mask = rollout.tokens.mask[0]
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(completions=tokens[None])
  )
  end = phase_entropy.first_position(tokens, mask, 7)
  np.testing.assert_array_equal(end, [2, 5, 1, 1])
  # 1 - max(0, thought - answer) if right, else the format score 0.
  value = worked_example.reward("phase_entropy", rollout, thought_end=7)
  np.testing.assert_allclose(value, [[0.5, 0.7, 1, 0]], rtol=1e-5)
  value = worked_example.reward(
    "phase_entropy", rollout, thought_end=7, alpha=2.0
  )
  np.testing.assert_allclose(value, [[0.8, 0.7, 1, 0]], rtol=1e-5)
  value = phase_entropy.phase_entropy_scores(
    rollout.correct[0], entropies, mask, end, jnp.array([0.2, 0.2, 0.2, 0.4])
  )
  np.testing.assert_allclose(value, [0.5, 0.7, 1, 0.4], rtol=1e-5)
  value = phase_entropy.phase_entropy_scores(
    rollout.correct[0], entropies, mask, end
  )
  np.testing.assert_allclose(value, [0.5, 0.7, 1, 0], rtol=1e-5)
