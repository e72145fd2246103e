"""Worked example of PURE as in its verl branch."""

import pytest
from helpers import clip_example, process_example

from rl import methods


def advantages(weight, horizon, ddof):
  """Process and outcome with one kind of baseline, whitened."""
  rewards = process_example.at_step_ends(process_example.soft_min_rewards(0.1))
  process = process_example.minus_others(
    process_example.to_go(rewards), horizon
  )
  # The verdict at the last token; the unknown one is in no baseline.
  returns = process_example.to_go(process_example.at_last([1, 0, 0, 1, 0]))
  outcome = process_example.minus_others(returns, horizon, (0, 2, 3))
  outcome[0, 4] = 0
  return process_example.whitened(
    process + weight * outcome, process_example.MASK > 0, ddof
  )


@pytest.mark.worked_example("method:pure_verl")
def test_one_return_for_process_and_outcome():
  """Whitened over 12 tokens, by default with n - 1."""
  process_example.check(methods.get("pure_verl"), advantages(1, 4, 1))
  m = methods.get("pure_verl", verifiable=2.0, horizon=10, ddof=0)
  clip_example.check_advantages(
    m, process_example.rollout(), advantages(2, 10, 0)
  )
