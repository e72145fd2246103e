"""Clipped confidence on chained arithmetic: right, and sure of it.

  python -m experiments.run --config experiments/configs/rewards/clipped_confidence.py \
    --workdir runs/clipped_confidence
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "confidence of the right"


def get_config():
  return rewards.on_task(pay(right="clipped_confidence()"))
