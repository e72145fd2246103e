"""Chained arithmetic with scores of steps: a base policy and two RL runs.

  python -m experiments.run --config experiments/configs/chain.py:base \
    --workdir runs/chain_base
  python -m experiments.run --config experiments/configs/chain.py:min_form \
    --workdir runs/chain_min_form
  python -m experiments.run --config experiments/configs/chain.py:prime \
    --workdir runs/chain_prime
"""

from ml_collections import ConfigDict

from experiments.cli import config_names
from experiments.configs import defaults


def base() -> ConfigDict:
  """The imperfect policy that chain runs start from, supervised.

  Expected: 500 steps on demonstrations with errors (per operation, 8 % wrong
  results that the next operation uses, 5 % filler steps, 3 % early answers),
  about a minute on two cores. Afterwards about two thirds of the held-out
  answers are right.
  """
  config = defaults.supervised(steps=500)
  config.task = "chain(operations=3)"
  config.rollout.prompts = 128
  config.optimizer.learning_rate = 3e-3
  config.steps_per_dispatch = 20
  return config


def min_form() -> ConfigDict:
  """RL by min-form credit from exact step scores.

  Expected: about a minute and a half on two cores; the share of right answers
  rises from .65 to .96. With
  `--config.task="chain(operations=3, prm='filler')"` the process reward model
  accepts any true arithmetic, useful or not: min-form still reaches .96, while
  with `--config.method=sum_form` the policy writes filler steps up to the
  length limit, and the share falls to .00.
  """
  config = _rl()
  config.method = "min_form"
  return config


def prime() -> ConfigDict:
  """RL by PRIME: process rewards from outcome labels alone.

  An implicit process reward model has the policy's parameters at first, is
  trained together with the policy from right and wrong answers, and gives a
  reward to every token. No step is labelled.

  Expected: about two minutes on two cores; the share of right answers rises
  from .65 to .92 (seed 0). Of the pairs of a right and a wrong sample of one
  group, the reward model gives the right sample the higher reward in .77
  (`prm/pair_accuracy`, first 60 steps). Later more than .8 of the samples of
  most groups are right, and the method leaves such groups out: 16 of the last
  40 steps have no group left, and their update is skipped (`optim/skipped`).
  """
  config = _rl()
  config.method = "prime"
  config.learners.prm = ConfigDict({"learning_rate": 4e-4})
  return config


def _rl() -> ConfigDict:
  """Returns the part that both RL configs share."""
  config = defaults.with_base(defaults.rl(steps=100), base())
  config.rollout.prompts = 16
  config.optimizer.learning_rate = 2e-4
  config.steps_per_dispatch = 10
  return config


_CONFIGS = config_names.NamedConfigs(
  "chain",
  {"base": base, "min_form": min_form, "prime": prime},
)
names, summary = _CONFIGS.names, _CONFIGS.summary
get_config = _CONFIGS.get_config
