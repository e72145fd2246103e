"""Configs by name: `--config FILE.py:NAME`."""

import pytest

from experiments import configs
from experiments.cli import spec
from experiments.configs import chain, countdown, method
from rl import methods


def test_a_config_is_listed_with_a_phrase():
  listing = configs.listing()
  assert listing["experiments/configs/chain.py:min_form"].startswith(
    "RL by min"
  )
  assert listing["experiments/configs/method.py:grpo"] == method.summary("grpo")
  assert listing["experiments/configs/reward.py:majority"]
  assert listing["experiments/configs/smoke.py"].startswith("The training loop")
  assert "experiments/configs/defaults.py" not in listing
  assert all(phrase and "\n" not in phrase for phrase in listing.values())


def test_every_method_has_a_name_and_no_entry_is_of_a_method_that_is_gone():
  assert method.names() == methods.names()
  assert method.CHANGES.keys() <= set(methods.names())


def test_settings_in_brackets_replace_those_of_the_entry():
  config = method.get_config("brorl(beta=0.5)")
  name, settings = spec.parse(config.method)
  assert (name, settings) == ("brorl", {"every": 20, "beta": 0.5})
  assert config.rollout.samples == 64  # as in the entry
  assert method.get_config("brorl(every=5)").method == "brorl(every=5)"


def test_a_method_without_an_entry_has_the_defaults():
  assert "grpo" not in method.CHANGES
  config = method.get_config("grpo")
  assert config.to_dict() == method.on_task("grpo").to_dict()
  assert (config.task, config.plan.minibatches) == (method.COUNTDOWN, 2)


@pytest.mark.parametrize("module", [chain, countdown, method])
def test_a_missing_name_is_refused_with_an_example(module):
  name = module.names()[0]
  with pytest.raises(
    ValueError, match=f"must have a name .*such as .*:{name};"
  ):
    module.get_config()
  with pytest.raises(ValueError, match="has no config 'nothing'"):
    module.get_config("nothing")
