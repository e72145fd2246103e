"""The optimizers of the learners of a config."""

import numpy as np
import pytest

from experiments.configs import defaults
from experiments.training import optimizers
from rl.minibatches import Plan


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
