"""The configs that a fitted model pays, after the commands before them."""

import numpy as np
import pytest
from helpers import fitted_model, worked_example

from experiments.configs import chain, fitted_reward
from experiments.training import build, checkpointing, placement
from experiments.training_run import validate
from models import checkpoint_reader


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
  """Returns a folder with an untrained base policy, and a model of its size."""
  folder = tmp_path_factory.mktemp("earlier")
  e = build.build(chain.base())
  checkpoints = folder / "base" / checkpoint_reader.FOLDER
  with checkpointing.Checkpoints(checkpoints) as saving:
    saving.save(0, {"params": placement.init_state(e).params}, {})
  (folder / "prm").mkdir()
  fitted_model.write(folder / "prm", e.model, "two_class")
  return folder


@pytest.mark.parametrize("name", fitted_reward.names())
def test_every_config_can_run(name, earlier, tmp_path):
  config = fitted_reward.get_config(name)
  paths = [model.workdir for model in config.models.values()]
  for path in (config.init_from, *paths):
    assert f"--workdir {path}" in fitted_reward.__doc__
  if not config.base:
    config.init_from = str(earlier / "base")
  for model in config.models.values():
    model.workdir = str(earlier / "prm")
  e = validate.check_and_build(config, tmp_path / "run")
  assert not list(tmp_path.iterdir())
  is_paid = e.method.reward is not None
  assert is_paid == (name != "outcome")
  # The aggregates share a command.
  is_named = f"`{name}`" in fitted_reward.__doc__
  command = f"--config experiments/configs/fitted_reward.py:{name}\n"
  assert is_named or command in fitted_reward.__doc__


def test_the_config_that_looks_ahead_pays_corrected_scores(earlier):
  """.8, .2 and .6 become .5, .4 and .6; the least is at another step."""
  method = build_with(earlier, "look_ahead")
  scores = np.array([[[0.8, 0.2, 0.6], [0.2, 0.8, 0.6]]], np.float32)
  rollout = worked_example.rollout(
    [1, 1], steps=[[1, 1, 1]] * 2, extras={"model/prm": scores}
  )
  paid, _ = method.reward.apply(rollout, method.init())
  expected = [[[0.5, 0.4, 0.6], [0.5, 0.7, 0.6]]]
  np.testing.assert_allclose(paid.step_scores, expected, rtol=1e-6)
  # Both samples are right, and without the correction they have the same sum.
  log_probs = np.full((1, 2, 3), np.log(0.3))
  slopes = [
    worked_example.loss(m, rollout, log_probs)[1]
    for m in (method, build_with(earlier, "min_form"))
  ]
  assert np.abs(slopes[0] - slopes[1]).max() > 0.01


def build_with(earlier, name):
  """Returns the method of a config."""
  config = fitted_reward.get_config(name)
  config.init_from = str(earlier / "base")
  config.models.prm.workdir = str(earlier / "prm")
  return build.build(config).method
