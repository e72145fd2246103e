"""Worked example of Dr. GRPO."""

import pytest
from helpers import clip_example

from rl import methods


@pytest.mark.worked_example("method:dr_grpo")
def test_centred_scores_and_a_constant_length():
  """Scores 1, 0.2 and 0.3: the mean is 0.5."""
  rollout = clip_example.rollout([1, 0, 0.2, 0.3])
  advantages = [[0.5, 0, -0.3, -0.2]]
  clip_example.check_advantages(methods.get("dr_grpo"), rollout, advantages)
  # Sums over tokens / (3 samples x horizon); the padded length is 3.
  mask = clip_example.mask(rollout)
  for horizon, length in ((None, 3), (10, 10)):
    clip_example.check_clip(
      methods.get("dr_grpo", horizon=horizon),
      rollout,
      advantages,
      mask / (3 * length),
      0.2,
      0.2,
    )
