"""Tests of `rewards.reward_models.concise`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.reward_models import concise

concise = compiled.functions(concise)


def test_conciseness_is_bounded_and_needs_a_right_answer():
  c = jnp.linspace(0.1, 1, 10)
  right = concise.concise_scores(jnp.ones(10), c, 0.5, 0.3, alpha=0.4)
  np.testing.assert_allclose(right, 1 + 0.4 * c * 0.8, rtol=1e-6)
  assert right.max() <= 1 + 0.4 * 0.8 + 1e-6
  np.testing.assert_array_equal(concise.concise_scores(jnp.zeros(10), c), 0)
  reference = concise.concise_scores(
    jnp.array([1, 0]), jnp.array([0.1, 1.0]), alpha=0.0
  )
  np.testing.assert_array_equal(reference, [1, 0])


@pytest.mark.worked_example("reward:concise", "function:concise.concise_scores")
def test_bonus_of_right_answers():
  """1 + alpha c (s + d) for right answers, else 0."""
  rollout = worked_example.rollout(
    np.full(4, 9),
    correct=[1, 0, 1, -1],
    components={"c": [0.25, 0.5, 0.75, np.nan]},
  )
  result = worked_example.reward("concise", rollout, conciseness="c")
  np.testing.assert_array_equal(result, [[1.25, 0, 1.75, 0]])
  result = worked_example.reward("concise", rollout, conciseness="c", alpha=3.0)
  np.testing.assert_array_equal(result, [[1.75, 0, 3.25, 0]])
  # Step 3 of 12: s = 1/4. Two of four are right: d = 2/4 of 3.
  rollout = rollout.replace(step=jnp.int32(3))
  settings = {"conciseness": "c", "horizon": 12.0, "by_accuracy": 3.0}
  result = worked_example.reward("concise", rollout, **settings)
  expected = [[1 + 0.25 * 1.75, 0, 1 + 0.75 * 1.75, 0]]
  np.testing.assert_allclose(result, expected, rtol=1e-6)
  late = rollout.replace(step=jnp.int32(99))
  result = worked_example.reward("concise", late, **settings)
  np.testing.assert_allclose(result[0, 0], 1 + 0.25 * 2.5, rtol=1e-6)
  result = concise.concise_scores(
    jnp.array([1, 0, 1]), jnp.array([0.25, 0.5, 0.75]), 0.5, 0.125, 2.0
  )
  expected = [1 + 2 * 0.25 * 0.625, 0, 1 + 2 * 0.75 * 0.625]
  np.testing.assert_array_equal(result, expected)
  # Without a difficulty and with alpha 1.
  result = concise.concise_scores(jnp.array([1]), jnp.array([0.25]), 0.5)
  np.testing.assert_array_equal(result, [1.125])
