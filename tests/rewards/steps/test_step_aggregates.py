"""Tests of `rewards.steps.step_aggregates`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rewards.steps import step_aggregates


def _rollout():
  scores = [[0.5, -0.2, 0.8], [0.6, 0.4], [-0.7], [], [0.1, 0.2, 0.3]]
  result = worked_example.rollout(
    [1, 2, 3, 4, 5],
    steps=[[1] * len(row) for row in scores],
    step_scores=scores,
    sample_mask=jnp.array([[True, True, True, True, False]]),
  )
  padded = jnp.where(result.step_mask, result.step_scores, jnp.nan)
  return result.replace(step_scores=padded)


@pytest.mark.worked_example(
  "reward:worst_step",
  "reward:mean_step",
  "reward:last_step",
  "reward:step_product",
  "function:step_aggregates.worst_step",
  "function:step_aggregates.mean_step",
  "function:step_aggregates.last_step",
  "function:step_aggregates.step_product",
)
@pytest.mark.parametrize(
  ("name", "expected"),
  [
    ("worst_step", [-0.2, 0.4, -0.7, 0, 0]),
    ("mean_step", [1.1 / 3, 0.5, -0.7, 0, 0]),
    ("last_step", [0.8, 0.4, -0.7, 0, 0]),
    # p = (s + 1) / 2
    ("step_product", [0.75 * 0.4 * 0.9, 0.8 * 0.7, 0.15, 0, 0]),
  ],
)
def test_rewards_of_samples_of_3_2_1_and_0_steps(name, expected):
  """The fifth sample does not exist; entries without a step are NaN."""
  np.testing.assert_allclose(
    worked_example.reward(name, _rollout())[0], expected, rtol=1e-6
  )


@pytest.mark.worked_example(
  "function:step_aggregates.worst_step_scores",
  "function:step_aggregates.mean_step_scores",
  "function:step_aggregates.last_step_scores",
)
def test_scores_of_samples_without_steps_are_minus_infinity():
  """The scores of 3, 2, 1 and 0 steps."""
  rollout = _rollout()
  for function, expected in (
    (step_aggregates.worst_step_scores, [-0.2, 0.4, -0.7, -np.inf]),
    (step_aggregates.mean_step_scores, [1.1 / 3, 0.5, -0.7, -np.inf]),
    (step_aggregates.last_step_scores, [0.8, 0.4, -0.7, -np.inf]),
  ):
    result = function(rollout.step_scores, rollout.step_mask)[0, :4]
    np.testing.assert_allclose(result, expected, rtol=1e-6)
