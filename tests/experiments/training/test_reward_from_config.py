"""The reward that a config sets in place of the task's score."""

import dataclasses
import math

import numpy as np
import pytest

from experiments.training import reward_from_config
from rl import methods


def test_the_weight_of_a_part_follows_its_schedule():
  """Halfway from 2 to 0.5 the weight is their mean, in each schedule."""

  def weight(factor):
    reward = f"verdict() - {factor} * last_step()"
    made = reward_from_config.make_reward({"reward": reward})
    return lambda step: -float(made.weights(np.int32(step))["last_step"])

  assert weight("2.0")(7) == 2.0
  steps = [0, 2, 5, 10, 99]
  linear = [weight("linear(2.0, 0.5, 10)")(step) for step in steps]
  np.testing.assert_allclose(linear, [2.0, 1.7, 1.25, 0.5, 0.5], rtol=1e-6)
  cosine = [weight("cosine(2.0, 0.5, 10)")(step) for step in steps]
  early = 0.5 + 1.5 * (1 + math.cos(0.2 * math.pi)) / 2
  np.testing.assert_allclose(cosine, [2.0, early, 1.25, 0.5, 0.5], rtol=1e-6)


@pytest.mark.parametrize(
  ("method", "reward", "message"),
  [
    ("grpo", {"reward": "verdict()"}, None),
    ("grpo", {"step_reward": "gains()"}, "grpo.* reads no step scores"),
    ("min_form", {"step_reward": "gains()"}, None),
    (
      "min_form",
      {"reward": "verdict()"},
      "learns from step scores, not",
    ),
    ("remax", {"reward": "verdict()"}, "remax.* score of the greedy sample"),
  ],
)
def test_a_method_reads_the_reward_that_is_set(method, reward, message):
  paid = dataclasses.replace(
    methods.get(method), reward=reward_from_config.make_reward(reward)
  )
  if message is None:
    reward_from_config.check_is_read(paid)
    return
  with pytest.raises(ValueError, match=message):
    reward_from_config.check_is_read(paid)
