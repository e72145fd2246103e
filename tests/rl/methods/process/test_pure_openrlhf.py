"""Worked examples of PURE as in its OpenRLHF branch."""

import numpy as np
import pytest
from helpers import clip_example, process_example

from rl import methods

# Tokens that do not end a step: of steps of 2, 3 and 2 tokens.
WITHIN = np.array(
  [[[1, 0, 0, 0], [0] * 4, [0, 1, 1, 0], [0] * 4, [1, 0, 0, 0]]], bool
)
REWARDS = process_example.soft_min_rewards(0.1)
MEMBERS = (0, 2, 3, 4)


def advantages(baselines, weight):
  """Whitened returns of r_k - b_k and of the leave-one-out verdict."""
  rewards = [np.subtract(REWARDS[i], baselines[i]) for i in range(5)]
  rewards = process_example.at_step_ends(rewards)
  rewards += weight * process_example.at_last(process_example.OUTCOME[0])
  return process_example.whitened(process_example.to_go(rewards), WITHIN, 0)


@pytest.mark.worked_example("method:pure_openrlhf")
def test_mean_reward_per_token_of_the_others():
  """b_k is the rate of the others times the tokens of step k - 1."""
  total = {i: REWARDS[i].sum() for i in MEMBERS}
  # The others' rewards over their tokens, 12 - 3, 12 - 4, 12 - 3 and 12 - 2.
  rate = {
    i: (sum(total.values()) - total[i]) / (12 - process_example.LENGTHS[i])
    for i in MEMBERS
  }
  baselines = [
    rate.get(i, 0) * (np.array(sizes) - 1)
    for i, sizes in enumerate(process_example.STEPS)
  ]
  process_example.check(methods.get("pure_openrlhf"), advantages(baselines, 1))
  m = methods.get("pure_openrlhf", verifiable=2.0)
  clip_example.check_advantages(
    m, process_example.rollout(), advantages(baselines, 2)
  )


@pytest.mark.worked_example("method:pure_openrlhf")
def test_mean_reward_per_step_of_the_others():
  """b is the mean over the 3 others of their mean over steps."""
  mean = {i: REWARDS[i].mean() for i in MEMBERS}
  baselines = [(sum(mean.values()) - mean.get(i, 0)) / 3 for i in range(5)]
  m = methods.get("pure_openrlhf", baseline="step")
  clip_example.check_advantages(
    m, process_example.rollout(), advantages(baselines, 1)
  )
