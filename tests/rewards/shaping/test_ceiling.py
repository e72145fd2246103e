"""Tests of `rewards.shaping.ceiling`."""

import numpy as np
import pytest
from helpers import worked_example


@pytest.mark.worked_example("reward:ceiling", "function:ceiling.ceiling_scores")
def test_scores_below_at_and_above_the_ceiling():
  """min(score, 1.5) of scores, and min(component, -1) of a component."""
  rollout = worked_example.rollout([1, 1.5, 4], components={"a": [-3, 2, 5]})
  np.testing.assert_array_equal(
    worked_example.reward("ceiling", rollout, highest=1.5), [[1, 1.5, 1.5]]
  )
  np.testing.assert_array_equal(
    worked_example.reward("ceiling", rollout, highest=-1.0, component="a"),
    [[-3, -1, -1]],
  )
