"""Tests of `rewards.outcome.all_conditions`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example


@pytest.mark.worked_example(
  "reward:all_conditions", "function:all_conditions.all_conditions"
)
def test_every_combination_of_conditions():
  """Right, intent, list, finished -> 1 only with all; truncated is -1."""
  rows = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)])
  rollout = worked_example.rollout(
    np.full(16, 9),
    correct=[*rows[:, 0], *rows[:, 0]],
    components={
      "intent": [*(0.4 + 0.4 * rows[:, 1])] * 2,
      "list": [*rows[:, 2]] * 2,
    },
  )
  finished = jnp.arange(16)[None] < 8
  rollout = rollout.replace(finished=finished)
  settings = {"conditions": ("intent", "list")}
  result = worked_example.reward("all_conditions", rollout, **settings)
  expected = [[0] * 7 + [1] + [-1] * 8]
  np.testing.assert_array_equal(result, expected)
  # Without conditions it is the verdict; no intent exceeds .8.
  result = worked_example.reward("all_conditions", rollout, conditions=())
  np.testing.assert_array_equal(result[0, :8], rows[:, 0])
  result = worked_example.reward(
    "all_conditions", rollout, conditions=("intent",), threshold=0.8
  )
  assert result[0, :8].max() == 0
  unknown = rollout.replace(correct=jnp.full((1, 16), -1))
  result = worked_example.reward("all_conditions", unknown, conditions=())
  assert result[0, :8].max() == 0
