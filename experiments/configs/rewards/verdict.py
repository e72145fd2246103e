"""The verdict on chained arithmetic: what all others are held against.

  python -m experiments.run --config experiments/configs/rewards/verdict.py \
    --workdir runs/verdict
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "outcome"


def get_config():
  return rewards.on_task(pay(right="verdict()"))
