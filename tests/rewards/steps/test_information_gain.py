"""Tests of `rewards.steps.information_gain`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rewards.steps import information_gain
from rl import credit


def test_information_gain_s_numbers():
  before = jnp.array([0.1, 0.3, 0.2])
  mask = jnp.ones(3, bool)
  result = information_gain.information_gains(before, mask, 1.0)
  np.testing.assert_allclose(result, [0.2, -0.1, 1.0], atol=1e-6)
  returns = credit.returns_to_go(result, mask)
  np.testing.assert_allclose(returns, [1.1, 0.9, 1.0], atol=1e-6)
  alone = information_gain.information_gains(before, jnp.arange(3) < 1, 0.7)
  np.testing.assert_allclose(alone, [0.7, 0, 0], rtol=1e-6)
  idle = information_gain.information_gains(jnp.full(3, 0.4), mask, 0.0)
  np.testing.assert_array_equal(idle, 0)


@pytest.mark.worked_example(
  "reward:information_gain",
  "function:information_gain.information_gains",
  "function:information_gain.next_entry",
)
def test_gains_of_turns_and_outcomes_of_last_turns():
  """Samples of 2, 3 and 1 turns, and one that does not exist."""
  mask = np.array([[[1, 1, 0], [1, 1, 1]], [[1, 0, 0], [1, 1, 1]]], bool)
  nan = np.nan
  after = [[[0.75, 0.125, nan], [0.875, 0.25, 0.625]]]
  after += [[[0.5, nan, nan], [0.375, 1.0, 0.0]]]
  rollout = worked_example.rollout(
    [[2, 3], [5, 7]],
    np.full((2, 2), 3),
    sample_mask=jnp.array([[True, True], [True, False]]),
    step_mask=jnp.asarray(mask),
    extras={"sampler/values": after, "sampler/prompt_values": [0.5, 0.25]},
  ).replace(step_scores=jnp.zeros(mask.shape))
  # p_{k+1} - p_k, and the outcome for the last turn.
  wanted = [[[0.75 - 0.5, 2, 0], [0.875 - 0.5, 0.25 - 0.875, 3]]]
  wanted += [[[5, 0, 0], [0, 0, 0]]]
  np.testing.assert_array_equal(
    worked_example.reward("information_gain", rollout), wanted
  )
  np.testing.assert_array_equal(
    information_gain.next_entry(jnp.array([[2.0, 3.0, 5.0]])), [[3, 5, 0]]
  )
