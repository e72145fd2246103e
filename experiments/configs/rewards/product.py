"""The verdict times the process on chained arithmetic.

The judge never looks ahead, which `step_product` is paid for alone.

  python -m experiments.run --config experiments/configs/rewards/product.py \
    --workdir runs/product
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "mixes"


def get_config():
  return rewards.on_task(
    pay("product", right="verdict()", process="step_product()"), rewards.LOCAL
  )
