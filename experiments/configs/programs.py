"""Programs with rewards of single lines (PRLCoder), and of the verdict alone.

These commands train a policy on demonstrations with errors, label lines by
changing them and executing the result, and fit a process reward model:

  python -m experiments.run --config experiments/configs/programs.py:base \
    --workdir runs/programs_base
  python -m experiments.prm label --workdir runs/programs_prm \
    --policy runs/programs_base --source mutation --problems 512 --samples 2 \
    --batch 128
  python -m experiments.prm fit --workdir runs/programs_prm --steps 600

and these train the policy by PPO, on the scores of the lines and the verdict of
the program, or on the verdict alone:

  python -m experiments.run --config experiments/configs/programs.py:prlcoder \
    --workdir runs/programs_prlcoder
  python -m experiments.run --config experiments/configs/programs.py:outcome \
    --workdir runs/programs_outcome

`experiments/prm/README.md` has the results.
"""

from ml_collections import ConfigDict

from experiments.cli import config_names
from experiments.configs import defaults


def base() -> ConfigDict:
  """The imperfect policy that the other runs start from, supervised.

  Expected: 500 steps on demonstrations with errors (per operation, 5 % another
  operator, 5 % another operand, 3 % no line, 2 % a line that is no Python),
  about three minutes on two cores. Afterwards two fifths of the held-out
  programs are right.
  """
  config = defaults.supervised(steps=500)
  config.task = "programs(operations=4)"
  # The critic of the other configs. A run has the parameters of the run that it
  # starts from, so that this one has the head too, and does not train it.
  config.model.value_head = True
  config.rollout.prompts = 128
  config.optimizer.learning_rate = 3e-3
  return config


def prlcoder() -> ConfigDict:
  """PPO on the model's score of each line, and on the verdict at the end.

  Expected: about three minutes on two cores; the share of right programs rises
  from .41 to .94.
  Source: Ye et al. 2025, Process-Supervised Reinforcement Learning for Code
  Generation (PRLCoder).
  """
  config = outcome()
  config.method = _method(process_weight=0.05)
  config.step_reward = "model_steps(model='prm')"
  return config


def outcome() -> ConfigDict:
  """PPO on the verdict alone, `prlcoder` without line rewards.

  Expected: about three minutes on two cores; the share of right programs rises
  from .41 to .95. The model only watches.
  """
  config = defaults.rl(steps=100)
  config.task = "programs(operations=4)"
  config.method = _method(process_weight=0.0)
  config.init_from = "runs/programs_base"
  config.models.prm = defaults.reward_model("runs/programs_prm")
  config.model.value_head = True
  config.rollout.prompts = 16
  config.optimizer.learning_rate = 2e-4
  config.rollouts_every = 50
  return config


def _method(process_weight: float) -> str:
  """Returns the method of both RL configs."""
  # The returns of a program are sums of the rewards of its five lines, and
  # differ from token to token. The small weights, with a KL penalty that is
  # smaller in proportion, let the critic learn them in a few steps. The
  # advantages are whitened, so that the scale does not change the gradient of
  # the policy.
  return (
    f"prlcoder(process_weight={process_weight}, outcome_weight=0.05, "
    "beta=0.0025)"
  )


_CONFIGS = config_names.NamedConfigs(
  "programs",
  {"base": base, "prlcoder": prlcoder, "outcome": outcome},
)
names, summary = _CONFIGS.names, _CONFIGS.summary
get_config = _CONFIGS.get_config
