"""Worked example of Pref-GRPO."""

import numpy as np
import pytest
from helpers import clipped_group, worked_example

from rl import methods
from rl.methods.pairs import pairwise


@pytest.mark.worked_example("method:pref_grpo")
def test_win_rates():
  """Win rates 3/4, 1/4, 1/2 of three samples; two more are not compared."""
  nan = np.nan
  preferred = [
    [0.5, 0.5, 1, nan, 1],
    [0.5, 0.5, 0, nan, 1],
    [0, 1, 0.5, nan, 1],
    [nan, nan, nan, nan, 1],
    [0, 0, 0, 0, 0.5],
  ]
  rollout = worked_example.rollout(
    [1, 2, 3, 4, 5],
    sample_mask=np.array([[True, True, True, True, False]]),
    extras={"task/preferences": [preferred]},
  )
  m = methods.get("pref_grpo", preferences="task")
  # R_i = the mean of pref[i, j] over the j that were compared with i.
  rewards = np.array([0.75, 0.25, 0.5])  # the deviation (n - 1) is 1/4
  np.testing.assert_allclose(
    worked_example.advantages(m, rollout),
    [[*(rewards - 0.5) / 0.25, 0, 0]],
    atol=2e-5,
  )


@pytest.mark.worked_example("method:pref_grpo")
def test_ties_clip_and_kl():
  """Scores 1, 0, 0, 0: win rates 1 and three times 1/3, deviation 1/3."""
  weights = clipped_group.SAMPLE_MEAN
  loss, slopes = clipped_group.objective(
    clipped_group.Z_SCORES, weights, 0.8, 1.2
  )
  # 0.04 k3: exp(d) - d - 1 with d = log ref - log pi.
  pi = clipped_group.OLD * clipped_group.RATIOS
  loss += 0.04 * np.sum(weights * (0.35 / pi - np.log(0.35 / pi) - 1))
  slopes = slopes + 0.04 * weights * (1 - 0.35 / pi)
  clipped_group.check_loss(
    methods.get("pref_grpo"),
    clipped_group.group(),
    (loss, slopes),
    other={"ref": np.full((1, 5, 3), np.log(0.35))},
  )


def test_totals_that_differ_in_their_last_bit_are_tied():
  scores = np.float32([[0.7, np.float32(0.3) + np.float32(0.4), 0.1]])
  assert scores[0, 0] != scores[0, 1]
  rollout = worked_example.rollout(scores)
  actual = pairwise.preferred(rollout, "scores")[0]
  np.testing.assert_array_equal(
    actual, [[0.5, 0.5, 1.0], [0.5, 0.5, 1.0], [0.0, 0.0, 0.5]]
  )
