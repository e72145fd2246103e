"""The product of steps on chained arithmetic, by a judge of single steps.

  python -m experiments.run --config experiments/configs/rewards/step_product.py \
    --workdir runs/step_product
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "process as outcome"


def get_config():
  return rewards.on_task(pay(process="step_product()"), rewards.LOCAL)
