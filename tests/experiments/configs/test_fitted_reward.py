"""The configs that a fitted model pays, after the commands before them."""

import pytest
from helpers import fitted_model

from experiments.configs import chain, fitted_reward
from experiments.training import build, checkpointing, validate
from models import checkpoint_reader


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
  """Returns a folder with an untrained base policy, and a model of its size."""
  folder = tmp_path_factory.mktemp("earlier")
  e = build.build(chain.base())
  checkpoints = folder / "base" / checkpoint_reader.FOLDER
  with checkpointing.Checkpoints(checkpoints) as saving:
    saving.save(0, {"params": e.init().params}, {})
  (folder / "prm").mkdir()
  fitted_model.write(folder / "prm", e.model, "two_class")
  return folder


@pytest.mark.parametrize("name", fitted_reward.names())
def test_every_config_can_run(name, earlier, tmp_path):
  config = fitted_reward.get_config(name)
  for path in (config.init_from, config.models.prm.workdir):
    assert f"--workdir {path}" in fitted_reward.__doc__
  config.init_from = str(earlier / "base")
  config.models.prm.workdir = str(earlier / "prm")
  e = validate.check_and_build(config, tmp_path / "run")
  assert not list(tmp_path.iterdir())
  is_paid = e.method.reward is not None
  assert is_paid == (name != "outcome")
  # The aggregates share a command.
  is_named = f"`{name}`" in fitted_reward.__doc__
  command = f"--config experiments/configs/fitted_reward.py:{name}\n"
  assert is_named or command in fitted_reward.__doc__
