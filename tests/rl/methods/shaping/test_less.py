"""Worked example of LESS."""

import numpy as np
import pytest
from helpers import clipped_group, worked_example

from rl import methods, scoring


@pytest.mark.worked_example("method:less")
def test_weights_without_segments_and_clip():
  """Short samples are at or below their quantile: weights 1 and 1/3."""
  m = methods.get("less")
  rollout = clipped_group.group(
    extras={"old/entropy": clipped_group.ENTROPY[None]}
  )
  rollout = scoring.compute_on_host(m.signal_needs, rollout)
  a = [1.5, -1 / 6, -1 / 6, -1 / 6, 0]
  expected = clipped_group.objective(a, clipped_group.TOKEN_MEAN, 0.8, 1.28)
  clipped_group.check_loss(m, rollout, expected)


@pytest.mark.worked_example("method:less")
def test_dual_clip():
  """A ratio of 12 counts as 10 where A < 0, and as 1.28 where A > 0."""
  rollout = worked_example.rollout(
    [1, 0, 0], extras={"old/entropy": np.ones((1, 3, 1))}
  )
  m = methods.get("less")
  rollout = scoring.compute_on_host(m.signal_needs, rollout)
  old = np.full((1, 3, 1), np.log(0.05))
  rho = np.array([[[12.0], [12], [9]]])
  loss, slopes = worked_example.loss(m, rollout, old + np.log(rho), old)
  # The z-scores are 2/3 and -1/3 by sqrt(1/3); the two wrong ones weigh 1/2.
  a = np.sqrt(3) / 6
  np.testing.assert_allclose(loss, a * (10 + 9 - 4 * 1.28) / 3, rtol=1e-5)
  np.testing.assert_allclose(slopes.ravel(), [0, 0, 3 * a], atol=1e-5)


def test_a_segment_of_five_tokens_that_two_right_samples_share():
  """Ten tokens: eight are below the quantile, one reaches it, one exceeds it.

  The last sample has a verdict, but no scored token.
  """
  entropy = np.tile([0.1] * 5 + [2.0, 2.1] + [0.1] * 3, (4, 1))
  rollout = worked_example.rollout(
    [1, 1, 0, 0], [10] * 4, extras={"old/entropy": entropy[None]}
  )
  ids = np.arange(40).reshape(4, 10)
  ids[1, :5] = ids[0, :5]
  mask = np.ones((1, 4, 10), bool)
  mask[0, 3] = False
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(completions=ids[None], mask=mask)
  )
  m = methods.get("less")
  rollout = scoring.compute_on_host(m.signal_needs, rollout)
  weights = np.full((4, 10), 0.5)  # of two samples with this verdict
  weights[:, 6] = 1  # above the quantile
  weights[:2, :5] = 1  # shared by both
  weights[3] = 0
  a = np.sqrt(0.75) * np.array([1, 1, -1, -1])[:, None]
  np.testing.assert_allclose(
    worked_example.advantages(m, rollout), [a * weights], rtol=1e-5
  )
