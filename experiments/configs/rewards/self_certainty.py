"""Self-certainty on chained arithmetic: far from a uniform guess.

  python -m experiments.run --config experiments/configs/rewards/self_certainty.py \
    --workdir runs/self_certainty
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "label-free"


def get_config():
  return rewards.on_task(pay(sure="self_certainty()"))
