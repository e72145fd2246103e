"""Chained arithmetic with steps to be checked: a base policy and two RL runs.

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
  """The imperfect policy that chain runs start from, by imitation.

  Expected: 500 steps on noisy demonstrations (8 % wrong results, carried on;
  5 % filler steps; 3 % early answers), about a minute on two cores. Then about
  two thirds of the held-out answers are right.
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
  `--config.task="chain(operations=3, prm='filler')"` the process reward passes
  any true arithmetic, useful or not: min-form still reaches .96, while
  `--config.method=sum_form` ends at .00, writing fillers to the limit.
  """
  config = _rl()
  config.method = "min_form"
  return config


def prime() -> ConfigDict:
  """RL by PRIME: process rewards from outcome labels alone.

  An implicit process reward model starts as the policy, learns beside it from
  right and wrong answers, and pays every token; nobody labels a step.

  Expected: about two minutes on two cores; the share of right answers rises
  from .65 to .92 (seed 0), and the reward model orders .77 of the pairs of a
  right and a wrong sample of one group (`prm/pair_accuracy`, first 60 steps).
  Later most groups are right more often than .8 and are left out: of the last
  40 steps, 16 have no group left and are skipped (`optim/skipped`).
  """
  config = _rl()
  config.method = "prime"
  config.learners.prm = ConfigDict({"learning_rate": 4e-4})
  return config


def _rl() -> ConfigDict:
  config = defaults.with_base(defaults.rl(steps=100), base())
  config.rollout.prompts = 16
  config.optimizer.learning_rate = 2e-4
  config.steps_per_dispatch = 10
  return config


_CONFIGS = {"base": base, "min_form": min_form, "prime": prime}


def names() -> list[str]:
  return list(_CONFIGS)


def summary(name: str) -> str:
  return config_names.first_sentence(_CONFIGS[name])


def get_config(name: str = "") -> ConfigDict:
  config_names.check("chain", name, names())
  return _CONFIGS[name]()
