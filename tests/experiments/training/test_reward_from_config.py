"""The reward that a config sets in place of the task's score."""

import dataclasses
import math
import re

import ml_collections
import numpy as np
import pytest

from experiments.configs import defaults
from experiments.training import reward_from_config
from rl import methods


def test_the_weight_of_a_term_follows_its_schedule():
  """Halfway from 2 to 0.5 the weight is their mean, in each schedule."""

  def weight(schedule, **changes):
    term = {"schedule": schedule, "weight": 2.0, "final": 0.5} | changes
    term["schedule_steps"] = 10
    return reward_from_config._make_weight(ml_collections.ConfigDict(term))

  assert weight("constant", final=0.0) == 2.0
  steps = np.array([0, 2, 5, 10, 99])
  linear = [float(weight("linear")(step)) for step in steps]
  np.testing.assert_allclose(linear, [2.0, 1.7, 1.25, 0.5, 0.5], rtol=1e-6)
  cosine = [float(weight("cosine")(step)) for step in steps]
  early = 0.5 + 1.5 * (1 + math.cos(0.2 * math.pi)) / 2
  np.testing.assert_allclose(cosine, [2.0, early, 1.25, 0.5, 0.5], rtol=1e-6)
  np.testing.assert_array_equal(
    reward_from_config.WEIGHT_SCHEDULES["constant"](10)(7), 1.0
  )


@pytest.mark.parametrize(
  ("settings", "message"),
  [
    ({}, None),
    ({"final": 0.5}, "schedule_steps = 0 and final = 0.5 have no meaning"),
    ({"schedule_steps": 1}, "schedule_steps = 1 and final = 0.0 have no"),
    ({"schedule": "linear", "schedule_steps": 1, "final": 0.5}, None),
    ({"schedule": "linear"}, "t.schedule_steps = 0 must be at least 1"),
    ({"schedule": "linaer"}, "did you mean 'linear'"),
  ],
)
def test_only_a_weight_that_changes_has_a_schedule(settings, message):
  block = defaults.reward(t=defaults.term("verdict()", **settings))
  if message is None:
    reward_from_config.check(block)
    return
  with pytest.raises(ValueError, match=re.escape(message)):
    reward_from_config.check(block)


def test_a_reward_names_each_of_its_terms_once_in_its_order():
  block = defaults.reward(a="verdict()", b="verdict()")
  reward_from_config.check(block)
  block.order = ("a",)
  with pytest.raises(ValueError, match="must name the terms"):
    reward_from_config.check(block)


@pytest.mark.parametrize(
  ("method", "reward", "message"),
  [
    ("grpo", {"a": "verdict()"}, None),
    ("grpo", {"step_reward": "gains()"}, "grpo.* reads no step scores"),
    ("min_form", {"step_reward": "gains()"}, None),
    ("min_form", {"a": "verdict()"}, "min_form.* learns from step scores, not"),
    ("remax", {"a": "verdict()"}, "remax.* score of the greedy sample"),
  ],
)
def test_a_method_reads_the_reward_that_is_set(method, reward, message):
  config = defaults.rl()
  config.reward = defaults.reward(**reward)
  paid = dataclasses.replace(
    methods.get(method), reward=reward_from_config.make_reward(config.reward)
  )
  if message is None:
    reward_from_config.check_is_read(paid)
    return
  with pytest.raises(ValueError, match=message):
    reward_from_config.check_is_read(paid)
