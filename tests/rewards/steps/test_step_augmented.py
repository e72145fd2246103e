"""Tests of `rewards.steps.step_augmented`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import process_example

from rewards.steps.step_augmented import step_augmented


def value(rollout, **settings):
  return step_augmented(**settings).apply(None, rollout, ())[0]


@pytest.mark.worked_example(
  "reward:step_augmented", "function:step_augmented.step_augmented"
)
def test_share_of_right_steps_and_verdict():
  """1 of 2, none of 2, 1 of 2, 3 of 3 and 1 of 1 steps; .4 and .6 weigh."""
  rollout = process_example.rollout()
  result = value(rollout)
  # Verdicts 1, (absent), 0, 1 and unknown.
  expected = [0.2 + 0.6, 0.2, 0.4 + 0.6, 0.4]
  np.testing.assert_allclose(result[0, [0, 2, 3, 4]], expected, rtol=1e-6)
  rollout = rollout.replace(
    components={
      "says": jnp.array([[0.5, 0, 1, 0, 1]]),
      "form": jnp.array([[1, 0, 0, 1, 1]]),
    }
  )
  result = value(rollout, verdict="says", well_formed="form", weight=0.25)
  expected = [0.125 + 0.375, 0, 0.25, 0.25 + 0.75]
  np.testing.assert_allclose(result[0, [0, 2, 3, 4]], expected, rtol=1e-6)
  with pytest.raises(ValueError, match="did you mean 'says'"):
    value(rollout, verdict="say")


def test_three_of_four_right_steps_of_a_right_sample():
  """The paper's .4 * 3 / 4 + .6 = .9."""
  rollout = process_example.rollout()
  rollout = rollout.replace(
    step_scores=jnp.array([[[1.0, 1.0, -1.0, 1.0]] * 5]),
    step_mask=jnp.ones((1, 5, 4), bool),
  )
  np.testing.assert_allclose(value(rollout)[0, 0], 0.9, rtol=1e-6)
  # A step with the score 0 is not right.
  rollout = rollout.replace(
    step_scores=jnp.array([[[1.0, 0.0, -1.0, 0.0]] * 5])
  )
  np.testing.assert_allclose(value(rollout)[0, 0], 0.7, rtol=1e-6)
