"""The mean step on chained arithmetic, by a judge that never looks ahead.

  python -m experiments.run --config experiments/configs/rewards/mean_step_local.py \
    --workdir runs/mean_step_local
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "process as outcome"


def get_config():
  return rewards.on_task(pay(process="mean_step()"), rewards.LOCAL)
