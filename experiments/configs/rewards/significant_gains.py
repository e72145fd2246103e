"""Significant gains on chained arithmetic: above the noise alone.

Four continuations of every prefix count as sampled tokens.

  python -m experiments.run --config experiments/configs/rewards/significant_gains.py \
    --workdir runs/significant_gains
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "steps"


def get_config():
  return rewards.on_task(
    pay(steps="significant_gains()"), method="sum_form", stage=rewards.CONTINUED
  )
