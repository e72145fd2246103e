"""Closeness against that of the greedy sample.

  python -m experiments.run --config experiments/configs/rewards/centered.py \
    --workdir runs/centered
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "shapes"


def get_config():
  return rewards.on_task(
    pay(close="centered(references='stage/greedy_scores')"),
    rewards.CLOSENESS,
    stage="greedy()",
  )
