"""Tests of `rewards.steps.significant_gains`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.steps import significant_gains

significant_gains = compiled.functions(significant_gains)


def test_clear_gains_reach_back_to_the_steps_before():
  gain = jnp.array([0.0, 0.05, 0.4, 0.0, 0.0, 0.0, 0.0, -0.5])
  mask = jnp.ones(8, bool)
  result = significant_gains.significant_step_gains(
    gain, mask, 0.1, 0.5, 2, -0.01
  )
  expected = [0.1, 0.2, 0.4, -0.01, -0.01, -0.125, -0.25, -0.5]
  np.testing.assert_allclose(result, expected, rtol=1e-6)
  # Known from the start: no gain, and only the charge.
  idle = significant_gains.significant_step_gains(
    jnp.zeros(8), mask, idle=-0.01
  )
  np.testing.assert_allclose(idle, -0.01)
  # By default, gains above 0.1 reach back 3 steps, with decay 0.9.
  gain = jnp.array([0.05, 0.2, 0.1, 0.0, 0.0, 0.0, 0.5])
  result = significant_gains.significant_step_gains(gain, mask[:7])
  expected = [0.18, 0.2, 0, 0.729 * 0.5, 0.81 * 0.5, 0.9 * 0.5, 0.5]
  np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.worked_example(
  "reward:significant_gains",
  "function:significant_gains.significant_step_gains",
)
def test_significant_gains_of_values():
  """With threshold 0.1, decay 0.9 and a window of 3 steps."""
  after = np.full((1, 4, 5), np.nan)
  after[0, 0, :4] = 0.55, 0.75, 0.75, 0.70  # d = .05, .2, 0, -.05
  after[0, 1, :3] = 0.5, 0.2, 0.29  # d = 0, -.3, .09
  after[0, 2] = 0.5, 0.5, 0.5, 0.5, 0.61  # d = 0, 0, 0, 0, .11
  after[0, 3] = 0.1, 0.2, 0.9, 0.4, 0.8  # does not exist
  rollout = worked_example.rollout(
    [0, 0, 0, 0],
    steps=[[1] * 4, [1] * 3, [1] * 5, [1] * 5],
    sample_mask=jnp.array([[True, True, True, False]]),
    extras={"sampler/values": after, "sampler/prompt_values": [0.5]},
  )
  target = [[0.9 * 0.2, 0.2, 0, 0, 0], [0.9 * -0.3, -0.3, 0, 0, 0]]
  target += [[0, 0.729 * 0.11, 0.81 * 0.11, 0.9 * 0.11, 0.11], [0] * 5]
  result = worked_example.reward("significant_gains", rollout)
  np.testing.assert_allclose(result[0], target, atol=1e-6)


@pytest.mark.worked_example("function:significant_gains.significant_step_gains")
def test_threshold_window_and_idle_reward():
  """A gain at the threshold is not significant; the next one after it is."""
  gain = [0, 0.125, 0.5, 0, 0, 0, 0, -0.25, 0.0625, 9]
  mask = jnp.arange(10) < 9
  result = significant_gains.significant_step_gains(
    jnp.array([gain, [0, 0.25, -0.5] + [0] * 7]), mask[None], 0.125, 0.5, 3, -1
  )
  first = [0.25 * 0.5, 0.5 * 0.5, 0.5, -1]  # step 3 is 4 steps before step 7
  first += [-0.25 / 8, -0.25 / 4, -0.25 / 2, -0.25, -1, 0]
  second = [0.5 * 0.25, 0.25, -0.5, -1, -1, -1, -1, -1, -1, 0]
  np.testing.assert_array_equal(result, [first, second])
