"""Worked example of PAPO."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example, process_example

from rl import methods

MEANS = np.array([0.15, 0, 0.3, 1.4 / 3, 0.5])  # of the step scores
EXISTS = np.array([True, False, True, True, True])


def advantages(verdicts, weight):
  right = EXISTS & (np.array(verdicts) == 1)
  outcome = clip_example.z_score(right, EXISTS & (np.array(verdicts) >= 0))
  process = clip_example.z_score(MEANS, right) if right.sum() > 1 else 0.0
  return (outcome + weight * process)[None]


@pytest.mark.worked_example("method:papo")
def test_right_samples_are_ranked_by_their_steps():
  """Samples 0 and 3 are right; the verdict of the last one is unknown."""
  rollout = process_example.rollout()
  m = methods.get("papo")
  expected = advantages(process_example.VERDICTS, 1.0)
  # Of two right samples the worse one loses more than it gains by being right.
  np.testing.assert_allclose(
    # Verdicts 1, 0, 1: the mean is 2/3, and the deviation (n - 1) 1/sqrt(3).
    expected[0, [0, 3]],
    1 / np.sqrt(3) + np.array([-1, 1]) / np.sqrt(2),
    atol=1e-4,
  )
  clip_example.check_advantages(m, rollout, expected)
  weights = process_example.MASK / process_example.MASK.sum()
  clip_example.check_clip(
    m, rollout, expected, weights, 0.2, 0.2, sides="below"
  )


@pytest.mark.worked_example("method:papo")
def test_all_right_and_one_right():
  rollout = process_example.rollout()
  m = methods.get("papo", weight=0.4)
  for verdicts in ([1, 0, 1, 1, 1], [0, 1, 1, 0, 0]):
    changed = rollout.replace(correct=jnp.array([verdicts], jnp.int8))
    clip_example.check_advantages(m, changed, advantages(verdicts, 0.4))
