"""Negative entropy on chained arithmetic: paid for being sure.

  python -m experiments.run --config experiments/configs/rewards/negative_entropy.py \
    --workdir runs/negative_entropy
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "label-free"


def get_config():
  return rewards.on_task(pay(sure="negative_entropy()"))
