"""Information gain on chained arithmetic: of the chance of success.

Four continuations of every prefix count as sampled tokens.

  python -m experiments.run --config experiments/configs/rewards/information_gain.py \
    --workdir runs/information_gain
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "steps"


def get_config():
  return rewards.on_task(
    pay(steps="information_gain()"), method="sum_form", stage=rewards.CONTINUED
  )
