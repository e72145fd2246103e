"""Tests of the critic's targets."""

import jax.numpy as jnp
import numpy as np
from helpers import worked_example

from rl.methods.critic import values


def test_targets_add_the_old_value_and_are_0_at_tokens_that_do_not_count():
  """The second sample of the first prompt does not exist."""
  old = [[[0.5, 2.0], [np.nan] * 2], [[-1.0, 0.25], [4.0, np.nan]]]
  rollout = worked_example.rollout(
    [[1, 0], [0, 1]],
    [[2, 2], [2, 1]],
    sample_mask=jnp.array([[True, False], [True, True]]),
    extras={"old/values": old},
  )
  advantages = jnp.array(
    [[[1.0, 3.0], [np.nan] * 2], [[0.75, -2.0], [0.5, np.nan]]]
  )
  targets, _ = values.plus_old_values().apply(advantages, rollout, ())
  expected = [[[1.5, 5.0], [0, 0]], [[-0.25, -1.75], [4.5, 0]]]
  np.testing.assert_allclose(targets, expected)
