"""The worst step on chained arithmetic, by a judge that accepts filler.

  python -m experiments.run --config experiments/configs/rewards/worst_step.py \
    --workdir runs/worst_step
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "process as outcome"


def get_config():
  return rewards.on_task(pay(process="worst_step()"), rewards.FILLER)
