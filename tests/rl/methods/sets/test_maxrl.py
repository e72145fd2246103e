"""Worked example of MaxRL."""

import numpy as np
import pytest
from helpers import clip_example, tabular_policy, worked_example

from rl import methods
from rl.methods.sets.tail_objectives import power_series


@pytest.mark.worked_example("method:maxrl")
def test_a_right_sample_has_the_ratio_of_wrong_to_right_ones():
  """Two right and three wrong samples, and a group without a right one."""
  example = clip_example.rollout(
    [[0.5, 0, 0.6, 0, 0, 0], [0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]]
  )
  m = methods.get("maxrl")
  advantages = np.zeros((3, 6))
  # mean 2/5: (1 - 2/5) / (2/5) = 3/2, and -1. The second slot is empty.
  advantages[0] = [1.5, 0, 1.5, -1, -1, -1]
  clip_example.check_advantages(m, example, advantages)
  mask = clip_example.mask(example)
  clip_example.check_clip(m, example, advantages, mask / mask.sum(), 0.2, 0.2)


def test_it_is_the_gradient_of_a_truncated_log():
  """With n samples the series of log p ends at degree n - 1."""
  rollout = tabular_policy.rollout(ragged=False)
  verdicts = (rollout.correct == 1).astype(np.float32)
  rollout = rollout.replace(scores=verdicts)
  n = tabular_policy.S
  series = power_series(np.log, degree=n - 1)
  from_value = methods.get("from_value", objective=series)
  np.testing.assert_allclose(
    worked_example.advantages(methods.get("maxrl"), rollout) / n,
    worked_example.advantages(from_value, rollout),
    atol=1e-6,
  )
