"""The tanh of closeness against the greedy sample.

  python -m experiments.run --config experiments/configs/rewards/tanh.py \
    --workdir runs/tanh
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "shapes"


def get_config():
  return rewards.on_task(
    pay(close="tanh(references='stage/greedy_scores')"),
    rewards.CLOSENESS,
    stage="greedy()",
  )
