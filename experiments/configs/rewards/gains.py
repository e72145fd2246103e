"""Gains on chained arithmetic: what each step does to the chance of success.

Four continuations of every prefix count as sampled tokens.

  python -m experiments.run --config experiments/configs/rewards/gains.py \
    --workdir runs/gains
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "steps"


def get_config():
  return rewards.on_task(
    pay(steps="gains()"), method="sum_form", stage=rewards.CONTINUED
  )
