"""Chained arithmetic that is paid by a fitted process reward model.

These commands train a policy, label samples of it, and fit a model:

  python -m experiments.run --config experiments/configs/chain.py:base \
    --workdir runs/chain_base
  python -m experiments.prm label --workdir runs/chain_prm \
    --policy runs/chain_base --problems 1024 --samples 4 --batch 256
  python -m experiments.prm fit --workdir runs/chain_prm --steps 400

and this trains the policy on the step scores of the model, as a minimum:

  python -m experiments.run --workdir runs/fitted_min_form \
    --config experiments/configs/fitted_reward.py:min_form

Other configs pay their sum (`sum_form`), scores that are corrected by those of
the next steps (`look_ahead`), or the task's own score while the model watches
(`outcome`). PPO reads the step scores in `process_ppo`. Further configs pay one
score for each sample: `mean` or another aggregate of
`rewards.process.model_outcome.RULES` (`product`, `worst`, `best`, `sum`,
`last`), `mixed` the mean of the verdict and of that mean, and `filtered` that
mean to resampled groups. `two_less_variance` and `two_worst` combine two
models, the second of which is fitted to the same labels:

  python -m experiments.prm fit --workdir runs/chain_prm_1 --seed 1 \
    --steps 400 --policy runs/chain_base --data runs/chain_prm/labels.jsonl

`prm/score` is the mean score of a step by the model, and `prm/task_score` that
by the task's exact checker. `experiments/studies/process_rewards` runs all of
it with several seeds; its README has the results.
"""

from collections.abc import Callable

from ml_collections import ConfigDict

from experiments.cli import config_names
from experiments.configs import chain, defaults
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


def filtered() -> ConfigDict:
  """RL on the best and the worst samples by the mean of scores (PF-PPO)."""
  config = _config("pf_ppo")
  config.reward = "model_outcome()"
  return config


def process_ppo() -> ConfigDict:
  """PPO on the model's scores of steps (Math-Shepherd)."""
  # A base policy of its own, with a value head.
  config = defaults.with_base(_paid("ppo_process"), chain.base())
  config.init_from = ""
  config.model.value_head = config.base.model.value_head = True
  return config


def _of_two(rule: str) -> Callable[[], ConfigDict]:
  """Returns the function of the config of a rule of `ensemble`."""

  def of_two() -> ConfigDict:
    config = outcome()
    config.models.other = defaults.reward_model("runs/chain_prm_1")
    config.reward = (
      "one = model_outcome(); two = model_outcome(model='other'); "
      f"ensemble(members=('one', 'two'), rule={rule!r}, center=True)"
    )
    return config

  of_two.__doc__ = f"RL on the scores of two models, combined by {rule}."
  return of_two


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
    "filtered": filtered,
    "process_ppo": process_ppo,
    **{f"two_{rule}": _of_two(rule) for rule in ("less_variance", "worst")},
    **{rule: _aggregate(rule) for rule in model_outcome.RULES},
  },
)
names, summary = _CONFIGS.names, _CONFIGS.summary
get_config = _CONFIGS.get_config
