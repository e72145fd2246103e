"""Worked example of sum-form credit."""

import pytest
from helpers import clip_example, process_example

from rl import methods


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
