"""Worked examples of min-form and sum-form credit."""

import numpy as np
import pytest
from helpers import clip_example, process_example

from rl import methods


@pytest.mark.worked_example("method:min_form")
def test_returns_of_soft_min_rewards():
  """The temperature is 0.1, and baselines divide by 3 x 4."""
  rewards = process_example.at_step_ends(process_example.soft_min_rewards(0.1))
  returns = process_example.to_go(rewards)
  process = process_example.minus_others(returns)
  process_example.check(methods.get("min_form"), process)
  # The leave-one-out of verdicts at all tokens, times 2; horizon 10.
  m = methods.get("min_form", verifiable=2.0, horizon=10)
  outcome = 2 * process_example.OUTCOME[..., None] * process_example.MASK
  clip_example.check_advantages(
    m,
    process_example.rollout(),
    process_example.minus_others(returns, 10) + outcome,
  )


@pytest.mark.worked_example("method:sum_form")
def test_returns_of_step_scores():
  """Scores of steps at their last tokens, without and with a discount."""
  rewards = process_example.at_step_ends(process_example.SCORES)
  returns = process_example.to_go(rewards)
  process = process_example.minus_others(returns)
  process_example.check(methods.get("sum_form"), process)
  m = methods.get("sum_form", gamma=0.5, verifiable=2.0, horizon=10)
  returns = process_example.to_go(rewards, 0.5)
  outcome = 2 * process_example.OUTCOME[..., None] * process_example.MASK
  clip_example.check_advantages(
    m,
    process_example.rollout(),
    process_example.minus_others(returns, 10) + outcome,
  )


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
