"""Worked example of min-form credit."""

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
