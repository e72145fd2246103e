"""Tests of `rewards.outcome.task_score`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

import rewards


@pytest.mark.worked_example(
  "reward:task", "reward:verdict", "reward:component", "reward:finished"
)
@pytest.mark.worked_example(
  "function:task_score.task",
  "function:task_score.verdict",
  "function:task_score.component",
  "function:task_score.finished",
)
def test_parts_of_the_score():
  """The score, the verdict, a component and the end of three samples."""
  rollout = worked_example.rollout(
    [0.3, 0.8, 0.6],
    correct=[1, 0, -1],
    components={"style": [0.2, 0.5, 0.9], "length": [0.1, 0.4, 0.7]},
    finished=jnp.array([[False, True, True]]),
  )

  def value(name, **settings):
    return worked_example.reward(name, rollout, **settings)

  np.testing.assert_allclose(value("task"), [[0.3, 0.8, 0.6]])
  np.testing.assert_allclose(value("verdict"), [[1, 0, 0]])
  np.testing.assert_allclose(value("verdict", wrong=-0.5), [[1, -0.5, -0.5]])
  style = worked_example.apply(rewards.get("component", name="style"), rollout)
  np.testing.assert_allclose(style, [[0.2, 0.5, 0.9]])
  np.testing.assert_allclose(value("finished"), [[0, 1, 1]])
