"""PRIME on chained arithmetic: process rewards from outcome labels alone.

  python -m experiments.run --config experiments/configs/chain_prime.py \
    --workdir runs/chain_prime

An implicit process reward model starts as the policy, learns beside it from
right and wrong answers, and pays every token; nobody labels a step.

Expected: about two minutes on two cores; right answers rise from .65 to .92
(seed 0), and the reward model orders .77 of the pairs of a right and a wrong
sample of one group (`prm/pair_accuracy`, first 60 steps). Later most groups are
right more often than .8 and left out: of the last 40 steps 16 have no group
left and are skipped (`optim/skipped`).
"""

from ml_collections import ConfigDict

from experiments.configs import chain_base, defaults


def get_config():
  config = defaults.with_base(defaults.rl(steps=100), chain_base.get_config())
  config.method = "prime"
  config.learners.prm = ConfigDict({"learning_rate": 4e-4})
  config.rollout.prompts = 16
  config.optimizer.learning_rate = 2e-4
  config.steps_per_dispatch = 10
  return config
