"""The optimizers of the learners of a config."""

import math
import re

import numpy as np
import pytest
from helpers import small_run

from experiments.configs import defaults
from experiments.training import optimizers
from rl.update_plan import Plan


def test_each_learner_has_its_settings_and_its_updates(monkeypatch):
  """Those of the policy, except what its own block changes."""
  made = []
  monkeypatch.setattr(
    optimizers, "adamw", lambda config, updates: made.append((config, updates))
  )
  config = defaults.rl()
  with config.unlocked():
    config.learners = {"value": {"learning_rate": 0.5}}
  names = ["policy", "value", "other"]
  plan = Plan(epochs=2, minibatches=3)
  assert list(optimizers.make_optimizers(config, names, plan)) == names
  usual = config.optimizer.to_dict()
  assert [settings.to_dict() for settings, _ in made] == [
    usual,
    usual | {"learning_rate": 0.5},
    usual,
  ]
  assert [updates for _, updates in made] == [6, 1, 1]


@pytest.mark.parametrize(
  ("schedule", "expected"),
  [
    ("constant", [0, 0.5, 1, 1, 1, 1]),
    ("linear", [0, 0.5, 1, 0.2, 0.2, 0.2]),
    ("cosine", [0, 0.5, 1, 0.2, 0.2, 0.2]),
  ],
)
def test_without_steps_to_decay_the_rate_falls_in_one(schedule, expected):
  """The warm-up takes the 2 steps in which the rate would have to decay."""
  config = defaults.rl().optimizer
  config.schedule, config.learning_rate, config.final_scale = schedule, 1.0, 0.2
  config.warmup_steps = config.decay_steps = 2
  _, rate = optimizers.adamw(config, 1)
  result = [float(rate(step)) for step in range(6)]
  np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize(
  ("key", "value", "message"),
  [
    ("clip_norm", -1.0, "at least 0 and finite, such as 0$"),
    ("learning_rate", -1e-3, "at least 0 and finite, such as 0$"),
    ("learning_rate", math.nan, "such as 0.00015$"),
    ("learning_rate", math.inf, "such as 0.00015$"),
    ("b1", 2.0, "at least 0 and below 1, such as 0.999$"),
    ("b2", 1.0, "at least 0 and below 1, such as 0.999$"),
    ("eps", -1.0, "at least 1e-30 and finite, such as 1e-08$"),
    ("weight_decay", -1.0, "such as 0$"),
    ("warmup_steps", -5, "such as 0$"),
    ("final_scale", -0.1, "such as 0$"),
    ("decay_steps", -1, "such as 0$"),
    ("final_scale", math.inf, "such as 0.1$"),
    ("weight_decay", math.inf, "such as 0$"),
    ("clip_norm", math.inf, "such as 1$"),
    ("b1", 1.0, "such as 0.999$"),
    ("b1", -0.1, "such as 0$"),
    ("b2", -0.1, "such as 0$"),
  ],
)
def test_an_optimiser_of_no_sense_is_refused(key, value, message):
  config = defaults.rl()
  config.optimizer[key] = value
  start = re.escape(f"optimizer.{key} = {value} must be ")
  with pytest.raises(ValueError, match=f"{start}.*{message}"):
    optimizers.check(config, ["policy"])


def test_a_run_that_ends_while_it_warms_up_meets_no_cosine():
  config = defaults.supervised(steps=20)  # of 50 steps of warm-up
  optimizers.check(config, ["policy"])


@pytest.mark.parametrize("key", ["warmup_steps", "decay_steps"])
def test_a_learner_warms_up_and_decays_in_finitely_many_steps(key):
  config = small_run.config(learners={"prm": {key: math.inf}})
  message = f"learners.prm.{key} = inf must be .* finite, such as 0$"
  with pytest.raises(ValueError, match=message):
    optimizers.check(config, ["policy", "prm"])


def test_the_smallest_values_of_an_optimiser_are_allowed():
  config = defaults.rl()
  config.optimizer.schedule = "constant"
  for key in optimizers.RANGES:
    config.optimizer[key] = 1e-30 if key == "eps" else 0
  optimizers.check(config, ["policy"])


def test_a_decay_lies_behind_the_warm_up():
  config = defaults.rl(steps=20)
  config.optimizer.schedule = "linear"
  config.optimizer.warmup_steps, config.optimizer.decay_steps = 5, 6
  optimizers.check(config, ["policy"])
  config.optimizer.decay_steps = 4
  with pytest.raises(ValueError, match="decay_steps = 4 must be more than"):
    optimizers.check(config, ["policy"])
