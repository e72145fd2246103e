"""Tests of `rewards.steps.judged_thoughts`."""

import jax.numpy as jnp
import numpy as np
import pytest

from rewards.steps import judged_thoughts


def test_thoughts_in_closed_form_are_sums_of_their_rewards():
  """Labels alternate after merging; suffix sums of rewards plus the outcome."""
  for right, o, labels in (
    (True, 1.0, [1, 0, 1]),
    (True, 0.5, [0, 1]),
    (False, -0.8, [1, 0, 1]),
    (False, -0.8, [0, 1, 0, 1]),
  ):
    accuracy = 0.5
    rewards = [
      ((accuracy if label else -accuracy) if right else (o if label else -o))
      for label in labels
    ]
    rewards[-1] = 0.0  # the last thought carries the outcome alone
    suffix = np.cumsum(rewards[::-1])[::-1] + o
    result = judged_thoughts.judged_thoughts(
      o, int(right), jnp.array(labels, bool), jnp.ones(len(labels), bool), 0.5
    )
    if labels[-1]:
      np.testing.assert_allclose(result, suffix, atol=1e-6)


@pytest.mark.worked_example("function:judged_thoughts.judged_thoughts")
def test_advantages_of_labels():
  """Right: o, or o - alpha accuracy; wrong: o, or 0 without the label."""
  arguments = (
    jnp.array([0.75, -1.25, -0.5]),
    jnp.array([1, 0, -1]),
    jnp.array([[True, False, True], [True, False, True], [False, True, True]]),
    jnp.array([[True] * 3, [True] * 3, [True, True, False]]),
    jnp.array([0.5, 0.5, 0.5]),
  )
  result = judged_thoughts.judged_thoughts(*arguments)
  expected = [[0.75, 0.25, 0.75], [-1.25, 0, -1.25], [0, -0.5, 0]]
  np.testing.assert_array_equal(result, expected)
  result = judged_thoughts.judged_thoughts(*arguments, 3.0)
  np.testing.assert_array_equal(result[0], [0.75, 0.75 - 3 * 0.5, 0.75])
