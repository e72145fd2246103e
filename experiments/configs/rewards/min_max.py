"""Closeness on the range of all scores so far.

  python -m experiments.run --config experiments/configs/rewards/min_max.py \
    --workdir runs/min_max
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "shapes"


def get_config():
  return rewards.on_task(pay(close="min_max()"), rewards.CLOSENESS)
