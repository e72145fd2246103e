"""Tests of `rewards.steps.judged_thoughts`."""

import jax.numpy as jnp
import numpy as np

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
