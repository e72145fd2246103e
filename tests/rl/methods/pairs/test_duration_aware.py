"""Worked example of duration-aware updates."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clipped_group, worked_example

from rl import methods, types


@pytest.mark.worked_example("method:duration_aware")
def test_weights_by_duration():
  """Durations 1, 4, 2, 5 of four actions with the mean 3; one is unknown."""
  durations = np.full((1, 4, 2), 90.0)
  durations[0, 0], durations[0, 1, 0], durations[0, 2] = [1, 4], 2, [np.nan, 5]
  rollout = worked_example.rollout(
    [1, 0, 0, 9],
    steps=[[1, 2], [2], [1, 1], [1, 1]],
    sample_mask=np.array([[True, True, True, False]]),
    extras={"task/durations": durations},
  )
  # Scores 1, 0, 0: the mean is 1/3, the deviation (n - 1) sqrt(1/3).
  a, b = 2 / 3 * np.sqrt(3), -1 / 3 * np.sqrt(3)
  expected = np.array([[a / 3, 4 * a / 3, 4 * a / 3], [2 * b / 3] * 2 + [0]])
  expected = np.concatenate([expected, [[b, 5 * b / 3, 0], [0, 0, 0]]])
  m = methods.get("duration_aware")
  np.testing.assert_allclose(
    worked_example.advantages(m, rollout)[0, :3], expected[:3], rtol=1e-5
  )
  # A timeout of 4 replaces 5: the mean is 11/4.
  m = methods.get("duration_aware", timeout=4.0)
  actual = worked_example.advantages(m, rollout)[0, 2]
  np.testing.assert_allclose(actual, [b, 4 * b / 2.75, 0], rtol=1e-5)


def test_tokens_outside_of_actions_and_short_durations():
  """Durations of 0.2 and 0.6 of two actions have the mean 0.4; then all are 0.

  The last token of the first sample is in no action.
  """
  durations = np.array([[[0.2], [0.6]]])
  rollout = worked_example.rollout(
    [1, 0], steps=[[2], [3]], extras={"task/durations": durations}
  )
  mask = jnp.asarray([[[True, True, True], [True, True, False]]])
  rollout = rollout.replace(tokens=rollout.tokens.replace(mask=mask))
  a = np.sqrt(0.5)  # the z-scores of 1 and 0
  m = methods.get("duration_aware")
  np.testing.assert_allclose(
    worked_example.advantages(m, rollout),
    [[[a / 2, a / 2, a], [-1.5 * a, -1.5 * a, 0]]],
    rtol=1e-5,
  )
  still = {"task/durations": jnp.zeros((1, 2, 1))}
  rollout = rollout.replace(extras=types.Named(still))
  np.testing.assert_allclose(
    worked_example.advantages(m, rollout),
    [[[a, a, a], [-a, -a, 0]]],
    rtol=1e-5,
  )


@pytest.mark.worked_example("method:duration_aware")
def test_the_loss_is_that_of_grpo():
  """Without durations: PPO-clip, a mean over samples, and 0.04 k3."""
  weights = clipped_group.SAMPLE_MEAN
  loss, slopes = clipped_group.objective(
    clipped_group.Z_SCORES, weights, 0.8, 1.2
  )
  # exp(d) - d - 1 with d = log ref - log pi.
  pi = clipped_group.OLD * clipped_group.RATIOS
  loss += 0.04 * np.sum(weights * (0.35 / pi - np.log(0.35 / pi) - 1))
  slopes = slopes + 0.04 * weights * (1 - 0.35 / pi)
  clipped_group.check_loss(
    methods.get("duration_aware"),
    clipped_group.group(),
    (loss, slopes),
    other={"ref": np.full((1, 5, 3), np.log(0.35))},
  )
