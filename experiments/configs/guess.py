"""Guessing a number in several turns: a base policy, and credit by turn.

  python -m experiments.run --config experiments/configs/guess.py:base \
    --workdir runs/guess_base
  python -m experiments.run --config experiments/configs/guess.py:grpo \
    --workdir runs/guess_grpo
  python -m experiments.run --config experiments/configs/guess.py:sum_form \
    --workdir runs/guess_sum_form
  python -m experiments.run --config experiments/configs/guess.py:min_form \
    --workdir runs/guess_min_form
  python -m experiments.run --config experiments/configs/guess.py:max_at_k \
    --workdir runs/guess_max_at_k
  python -m experiments.run \
    --config experiments/configs/guess.py:max_at_k_min_form --workdir runs/guess
"""

from ml_collections import ConfigDict

from experiments.cli import config_names
from experiments.configs import defaults

TASK = "guess(numbers=64, guesses=4)"


def base() -> ConfigDict:
  """Guesses at random, whatever the replies: supervised."""
  config = defaults.supervised(steps=200)
  config.task = TASK
  config.rollout.prompts = 128
  config.optimizer.learning_rate = 3e-3
  config.steps_per_dispatch = 20
  return config


def grpo() -> ConfigDict:
  """RL on the outcome, whether the number was found."""
  return _rl("grpo")


def sum_form() -> ConfigDict:
  """RL on the sum of the rewards of the turns that follow."""
  return _rl("sum_form")


def min_form() -> ConfigDict:
  """RL on the least reward of the turns that follow."""
  return _rl("min_form")


def max_at_k() -> ConfigDict:
  """RL on the best of 4 episodes."""
  return _rl("max_at_k(k=4)")


def max_at_k_min_form() -> ConfigDict:
  """RL on the best of 4 episodes, by the least reward of their turns."""
  return _rl("max_at_k_min_form(k=4)")


def _rl(method: str) -> ConfigDict:
  config = defaults.with_base(defaults.rl(steps=200), base())
  config.method = method
  config.rollout.prompts = 64
  config.optimizer.learning_rate = 3e-4
  config.steps_per_dispatch = 10
  config.evaluation.problems = 64  # all numbers
  return config


_CONFIGS = config_names.NamedConfigs(
  "guess",
  {
    "base": base,
    "grpo": grpo,
    "sum_form": sum_form,
    "min_form": min_form,
    "max_at_k": max_at_k,
    "max_at_k_min_form": max_at_k_min_form,
  },
)
names, summary = _CONFIGS.names, _CONFIGS.summary
get_config = _CONFIGS.get_config
