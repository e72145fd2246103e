"""Closeness, standardized by all scores so far.

  python -m experiments.run --config experiments/configs/rewards/standardized.py \
    --workdir runs/standardized
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "shapes"


def get_config():
  return rewards.on_task(pay(close="standardized()"), rewards.CLOSENESS)
