"""Relative length on chained arithmetic: right, and shorter than others.

  python -m experiments.run --config experiments/configs/rewards/relative_length.py \
    --workdir runs/relative_length
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "length"


def get_config():
  return rewards.on_task(pay(right="relative_length(alpha=0.2)"))
