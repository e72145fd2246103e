"""Chained arithmetic that is paid by a fitted process reward model.

These commands train a policy, label samples of it, and fit a model:

  python -m experiments.run --config experiments/configs/chain.py:base \
    --workdir runs/chain_base
  python -m experiments.prm label --workdir runs/chain_prm \
    --policy runs/chain_base --problems 1024 --samples 4 --batch 256
  python -m experiments.prm fit --workdir runs/chain_prm --steps 400

and these train the policy on the step scores of the model, as a minimum or as a
sum, or on the task's own score while the model watches:

  python -m experiments.run --workdir runs/fitted_min_form \
    --config experiments/configs/fitted_reward.py:min_form
  python -m experiments.run --workdir runs/fitted_sum_form \
    --config experiments/configs/fitted_reward.py:sum_form
  python -m experiments.run --workdir runs/fitted_outcome \
    --config experiments/configs/fitted_reward.py:outcome

or on step scores that are corrected by those of the next steps:

  python -m experiments.run --workdir runs/fitted_look_ahead \
    --config experiments/configs/fitted_reward.py:look_ahead

Further configs pay one score for each sample: the mean of the model's scores,
or another aggregate of `rewards.process.model_outcome.RULES` (`product`,
`worst`, `best`, `sum`, `last`), and `mixed` the mean of the verdict and of that
mean:

  python -m experiments.run --workdir runs/fitted_mean \
    --config experiments/configs/fitted_reward.py:mean
  python -m experiments.run --workdir runs/fitted_mixed \
    --config experiments/configs/fitted_reward.py:mixed

`prm/score` is the mean score of a step by the model, and `prm/task_score` that
by the task's exact checker. `experiments/studies/process_rewards` runs all of
it with several seeds; its README has the results.
"""

from collections.abc import Callable

from ml_collections import ConfigDict

from experiments.cli import config_names
from experiments.configs import defaults
from rewards.process import model_outcome


def min_form() -> ConfigDict:
  """RL on the least of the model's scores of a sample (PURE)."""
  return _paid("min_form")


def sum_form() -> ConfigDict:
  """RL on the sum of the model's scores of a sample."""
  return _paid("sum_form")


def outcome() -> ConfigDict:
  """RL on the task's score alone; the model only watches."""
  return _config("grpo(beta=0.0)")


def look_ahead(weight: float = 0.5) -> ConfigDict:
  """RL on the least of scores that are corrected by the next step (ReARTeR).

  Args:
    weight: weight of the score of the next step. That of the paper is unknown.
  """
  config = _config("min_form")
  config.step_reward = f"model_steps(model='prm', look_ahead={weight})"
  return config


def mixed(share: float = 0.5) -> ConfigDict:
  """RL on the mean of the verdict and of the mean score by the model.

  The reward is (1 - share) verdict + share (mean of the model's scores).
  Source: Zhou et al. 2025, Fin-PRM: A Domain-Specialized Process Reward Model
  for Financial Reasoning in Large Language Models, the form of its reward.

  Args:
    share: share of the model.
  """
  config = outcome()
  config.reward = f"{1 - share} * verdict() + {share} * model_outcome()"
  return config


def _aggregate(rule: str) -> Callable[[], ConfigDict]:
  """Returns the function of the config of a key of `model_outcome.RULES`."""

  def aggregate() -> ConfigDict:
    config = outcome()
    config.reward = f"model_outcome(rule={rule!r})"
    return config

  aggregate.__doc__ = (
    f"RL on one score of a sample, the {rule} of the model's scores."
  )
  return aggregate


def _paid(method: str) -> ConfigDict:
  config = _config(method)
  config.step_reward = "model_steps(model='prm')"
  return config


def _config(method: str) -> ConfigDict:
  """Returns the part that all configs share."""
  config = defaults.rl(steps=100)
  config.task = "chain(operations=3)"
  config.method = method
  config.init_from = "runs/chain_base"
  config.models.prm = defaults.reward_model("runs/chain_prm")
  config.rollout.prompts = 16
  config.optimizer.learning_rate = 2e-4
  config.steps_per_dispatch = 10
  config.rollouts_every = 50
  return config


_CONFIGS = config_names.NamedConfigs(
  "fitted_reward",
  {
    "min_form": min_form,
    "sum_form": sum_form,
    "outcome": outcome,
    "look_ahead": look_ahead,
    "mixed": mixed,
    **{rule: _aggregate(rule) for rule in model_outcome.RULES},
  },
)
names, summary = _CONFIGS.names, _CONFIGS.summary
get_config = _CONFIGS.get_config
