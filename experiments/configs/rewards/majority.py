"""Majority on chained arithmetic: the group's commonest answer is right.

  python -m experiments.run --config experiments/configs/rewards/majority.py \
    --workdir runs/majority
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "label-free"


def get_config():
  return rewards.on_task(pay(vote="majority()"))
