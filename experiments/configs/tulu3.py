"""Tulu 3 on countdown: supervised, then DPO, then RL with verifiable rewards.

TODO
"""

from ml_collections import ConfigDict

from experiments.cli import config_names
from experiments.configs import defaults

TASK = "countdown(count=4)"
# Train problems that `experiments.preferences` samples in the commands above:
# about 6,000 distinct ones, of which half have a right and a wrong sample.
PROBLEMS = 12288


def sft() -> ConfigDict:
  """The first stage of Tulu 3: supervised training on demonstrations."""
  config = defaults.supervised(steps=1000)
  _share(config)
  config.optimizer.schedule = "linear"
  config.optimizer.warmup_steps = config.get_ref("steps") * 3 // 100
  config.optimizer.final_scale = 0.0
  config.steps_per_dispatch = 20
  return config


def dpo() -> ConfigDict:
  """The second stage of Tulu 3: DPO on samples of the supervised policy."""
  config = defaults.preferences(steps=24)
  _share(config)
  config.preferences = "runs/tulu3_pairs.jsonl"
  config.init_from = "runs/tulu3_sft"
  config.optimizer.learning_rate = 3e-4
  return config


def rlvr() -> ConfigDict:
  """The third stage of Tulu 3: PPO with a value head and verifiable rewards."""
  config = defaults.rl(steps=300)
  _share(config)
  config.method = "tulu3()"
  config.init_from = "runs/tulu3_dpo"
  config.rollout.prompts = 512
  config.rollout.samples = 1
  config.plan.epochs = 4
  config.optimizer.schedule = "linear"
  config.optimizer.decay_steps = config.get_ref("steps")
  config.optimizer.final_scale = 0.0
  config.steps_per_dispatch = 10
  return config


def _share(config: ConfigDict) -> None:
  """Sets what the three stages share."""
  config.task = TASK
  # The critic of the last stage reads it. The stages before do not train it.
  config.model.value_head = True
  config.evaluation.problems = 512


_CONFIGS = {"sft": sft, "dpo": dpo, "rlvr": rlvr}


def names() -> list[str]:
  return list(_CONFIGS)


def summary(name: str) -> str:
  return config_names.first_sentence(_CONFIGS[name])


def get_config(name: str = "") -> ConfigDict:
  config_names.check("tulu3", name, names())
  return _CONFIGS[name]()
