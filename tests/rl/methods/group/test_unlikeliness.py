"""Worked example of GRPO that rewards unlikely right answers."""

import numpy as np
import pytest
from helpers import clip_example, worked_example

from rl import methods


@pytest.mark.worked_example("method:unlikeliness")
def test_ranks_by_mean_log_prob():
  """Mean log-probs -2, -1 and -3 of the samples 0, 2 and 3, of 3 tokens."""
  # By their sums (-6, -1 and -6), by the padding, or if sample 1 counted, the
  # ranks would be others. Rank 1, 2 and 0 of 3; sample 2 is wrong.
  scores = [1, 0, 0.4, 0.7]
  rollout = clip_example.rollout(scores, correct=[1, 1, 0, 1])
  old = [[[-1, -2, -3], [-0.5] * 3, [-1, -9, -9], [-3.5, -2.5, -0.01]]]
  # R (1 - 0.25 rank / 3) of right samples.
  shaped = [1 * (1 - 0.25 * 1 / 3), 0, 0.4, 0.7 * (1 - 0)]
  exists = np.array([True, False, True, True])
  advantages = [clip_example.z_score(shaped, exists)]
  # As in GRPO: a mean over tokens, then over 3 samples; 0.1 k3 with
  # d = log pi_ref - log pi is exp(d) - d - 1, with slope 1 - exp(d).
  lengths = np.array([3, 1, 1, 2])[:, None]
  weights = clip_example.mask(rollout) / lengths / 3
  log_probs = np.array(old) + np.log(clip_example.RATIOS[:1, :4])
  ref = np.full((1, 4, 3), -1.5)
  d = ref - log_probs
  further = (
    0.1 * (weights * (np.exp(d) - d - 1)).sum(),
    0.1 * weights * (1 - np.exp(d)),
  )
  clip_example.check_clip(
    methods.get("unlikeliness"),
    rollout,
    advantages,
    weights,
    0.2,
    0.2,
    further,
    old=np.array(old),
    other={"ref": ref},
  )


@pytest.mark.worked_example("method:unlikeliness")
def test_most_likely_right_sample():
  """Ranks 2, 0 and 1 of 3, and 3, 0, 1 and 2 of 4, by two groups."""
  rollout = clip_example.rollout(
    [[1, 0, 0.4, 0.7], [1, 0.9, 0.4, 0.6]],
    correct=[[1, 1, 1, 0], [1, 0, 1, 1]],
    extras={"old/log_probs": np.full((2, 4, 3), [[-1], [-4], [-3], [-2]])},
  )
  # 1 - 0.25 x 2 / 3, 0.4, and 0.7 of the wrong sample.
  shaped = [5 / 6, 0, 0.4, 0.7]
  exists = np.array([True, False, True, True])
  # 1 - 0.25 x 3 / 4, and factors 1 - 0.25 x 1 / 4 and 1 - 0.25 x 2 / 4.
  further = [0.8125, 0.9, 0.4 * 0.9375, 0.6 * 0.875]
  advantages = [
    clip_example.z_score(shaped, exists),
    clip_example.z_score(further),
  ]
  m = methods.get("unlikeliness")
  clip_example.check_advantages(m, rollout, advantages)


def test_the_first_of_equally_likely_samples_has_the_lowest_rank():
  """Forty samples, because any sort keeps the order of a few equal values."""
  rollout = worked_example.rollout(
    np.ones((1, 40)), extras={"old/log_probs": np.full((1, 40, 1), -1.0)}
  )
  shaped = 1 - 0.25 * np.arange(40) / 40
  clip_example.check_advantages(
    methods.get("unlikeliness"), rollout, [clip_example.z_score(shaped)]
  )
