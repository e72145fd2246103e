"""Worked example of strict min-form credit."""

import numpy as np
import pytest
from helpers import clip_example, process_example

from rl import methods


@pytest.mark.worked_example("method:strict_min_form")
def test_minimum_of_later_steps():
  """The minimum of the present and later scores, at each token of a step."""
  returns = np.array(
    [
      [
        [-0.3, -0.3, -0.3, 0],
        [0, 0, 0, 0],
        [-0.2, 0.8, 0.8, 0.8],
        [0.1, 0.1, 0.4, 0],
        [0.5, 0.5, 0, 0],
      ]
    ]
  )
  process = process_example.minus_others(returns)
  process_example.check(methods.get("strict_min_form"), process)
  m = methods.get("strict_min_form", verifiable=2.0, horizon=10)
  outcome = 2 * process_example.OUTCOME[..., None] * process_example.MASK
  clip_example.check_advantages(
    m,
    process_example.rollout(),
    process_example.minus_others(returns, 10) + outcome,
  )
