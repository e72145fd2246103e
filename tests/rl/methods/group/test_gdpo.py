"""Worked example of GDPO."""

import numpy as np
import pytest
from helpers import clip_example, worked_example

from rl import methods

SCORES = [[1, 0, 0.2, 0.3], [0.9, 0.1, 0.4, 0.2], [0.3] * 4]
LENGTH = [[0.5, 9, 0.1, 0.8], [0.4, 0.4, 0.4, 0.4], [0.2] * 4]
STYLE = [[0.2, 9, 0.4, 0.3], [0.1, 0.7, 0.6, 0.2], [0.1] * 4]
EXISTS = np.array([[1, 0, 1, 1], [1] * 4, [1] * 4], bool)


def z_scores(rewards):
  """z-scores of each group, with ddof 1 and eps 1e-6; 0 for equal rewards."""
  return np.array(
    [
      clip_example.z_score(row, exists) if np.ptp(row) else np.zeros(4)
      for row, exists in zip(rewards, EXISTS, strict=True)
    ]
  )


def whitened(total):
  """Whitened (ddof 0) over the 11 samples; groups of equal sums have 0."""
  present = total[EXISTS]
  centered = np.where(EXISTS, total - present.mean(), 0)
  centered[2] = 0
  return centered / np.sqrt(((present - present.mean()) ** 2).mean() + 1e-8)


@pytest.mark.worked_example("method:gdpo")
def test_z_scores_of_rewards_summed_and_whitened():
  """A score and two rewards; the length is constant in the second group."""
  rollout = clip_example.rollout(
    SCORES, components={"style": STYLE, "length": LENGTH}
  )
  m = methods.get("gdpo")
  advantages = whitened(z_scores(SCORES) + z_scores(LENGTH) + z_scores(STYLE))
  clip_example.check_advantages(m, rollout, advantages)
  # A group of equal sums has exactly 0, whatever the mean of the batch.
  assert not worked_example.advantages(m, rollout)[2].any()
  # Weights of the score, then of the length and the style (by name).
  weighted = methods.get("gdpo", weights=(0.5, 3.0, 2.0))
  total = 0.5 * z_scores(SCORES) + 3 * z_scores(LENGTH) + 2 * z_scores(STYLE)
  clip_example.check_advantages(weighted, rollout, whitened(total))
  named = methods.get("gdpo", names=("style", "length"), weights=(2.0, 3.0))
  total = 2 * z_scores(STYLE) + 3 * z_scores(LENGTH)
  clip_example.check_advantages(named, rollout, whitened(total))
  # A mean over the tokens: 6 + 8 + 7.
  weights = clip_example.mask(rollout) / 21
  clip_example.check_clip(m, rollout, advantages, weights, 0.2, 0.2)
