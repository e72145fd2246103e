"""Worked example of progress (PAV, MRT, VSRM)."""

import numpy as np
import pytest
from helpers import clip_example, process_example, worked_example

from rl import methods

STEPS = ((2, 1), (1, 2, 1), (1,))
SCORES = (1.0, 0.0, 0.5)
# Progress of each step; the numbers differ, so that no two steps are confused.
PROGRESS = ((0.3, -0.1), (0.2, 0.4, -0.5), (0.25,))


@pytest.mark.worked_example("method:progress")
def test_outcome_and_progress_of_the_present_step_alone():
  """A = R - mean of the others + 3 d_k; a later step's d does not count."""
  rollout = worked_example.rollout(SCORES, steps=STEPS, step_scores=PROGRESS)
  got = worked_example.advantages(methods.get("progress"), rollout)
  expected = [
    [0.75 + 0.9, 0.75 + 0.9, 0.75 - 0.3, 0],  # R - mean = 1 - (0 + 0.5) / 2
    [-0.75 + 0.6, -0.75 + 1.2, -0.75 + 1.2, -0.75 - 1.5],
    [0.0 + 0.75, 0, 0, 0],
  ]
  np.testing.assert_allclose(got[0], expected, atol=1e-6)
  less = worked_example.advantages(methods.get("progress", alpha=0.5), rollout)
  np.testing.assert_allclose(less[0, 0, :3], [0.9, 0.9, 0.7], atol=1e-6)


@pytest.mark.worked_example("method:progress")
def test_clip():
  """PPO-clip 0.2, a mean over the 12 tokens; the second sample is absent."""
  scores = np.array([0.1, np.nan, 0.2, 0.3, 0.4])
  advantages = np.zeros((1, 5, 4))
  for i in (0, 2, 3, 4):
    outcome = scores[i] - (1 - scores[i]) / 3  # the scores' sum is 1
    progress = 3 * np.repeat(
      process_example.SCORES[i], process_example.STEPS[i]
    )
    advantages[0, i, : len(progress)] = outcome + progress
  clip_example.check_clip(
    methods.get("progress"),
    process_example.rollout(),
    advantages,
    process_example.MASK / 12,
    0.2,
    0.2,
    sides="above",
  )


def test_a_prover_other_than_the_base_policy_is_refused():
  assert dict(methods.get("progress", prover="ref").parameter_sets).keys() == {
    "ref"
  }
  assert methods.get("progress").parameter_sets == ()
  with pytest.raises(ValueError, match="prover = 'ema' must be 'policy' or"):
    methods.get("progress", prover="ema")
