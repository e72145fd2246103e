"""Worked example of clip and delta."""

import pytest
from helpers import clip_example, process_example

from rl import methods

# The mean of 0.6, -0.3, -0.2, 0.8, 0.9, 0.1, 0.4 and 0.5 is 0.35.
CLIPPED = [[0, -0.65], [0, 0], [-0.55, 0], [0, -0.25, 0], [0]]


def advantages(rewards, alpha, horizon=4):
  """A_success + alpha (G_t - the others' mean return)."""
  returns = process_example.to_go(process_example.at_step_ends(rewards))
  process = process_example.minus_others(returns, horizon)
  success = process_example.OUTCOME[..., None] * process_example.MASK
  return success + alpha * process


@pytest.mark.worked_example("method:clip_delta")
def test_clipped_differences():
  """min(s - 0.35, 0), then differences to the next step, of the last step 0."""
  # s_1 - 0 of two steps; s_1 - s_2, s_2 - 0 and 0 of three steps.
  rewards = [[0, 0], [0, 0], [-0.55, 0], [0 + 0.25, -0.25, 0], [0]]
  m = methods.get("clip_delta")
  process_example.check(m, advantages(rewards, 0.1))


@pytest.mark.worked_example("method:clip_delta")
def test_clip_and_delta_alone():
  """Each with other settings: a threshold 0.5, alpha 2 and horizon 10."""
  example = process_example.rollout()
  m = methods.get("clip_delta", form="clip")
  clip_example.check_advantages(m, example, advantages(CLIPPED, 0.1))
  m = methods.get(
    "clip_delta", form="clip", threshold=0.5, alpha=2.0, horizon=10
  )
  rewards = [[0, -0.8], [0, 0], [-0.7, 0], [0, -0.4, -0.1], [0]]
  clip_example.check_advantages(m, example, advantages(rewards, 2, 10))
  m = methods.get("clip_delta", form="delta")
  rewards = [[0.6, 0], [0, 0], [-0.2, 0], [0.9 - 0.1, 0.1, 0], [0]]
  clip_example.check_advantages(m, example, advantages(rewards, 0.1))
