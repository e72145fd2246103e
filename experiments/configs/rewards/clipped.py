"""Closeness, clipped at one deviation of all scores so far.

  python -m experiments.run --config experiments/configs/rewards/clipped.py \
    --workdir runs/clipped
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "shapes"


def get_config():
  return rewards.on_task(pay(close="clipped()"), rewards.CLOSENESS)
