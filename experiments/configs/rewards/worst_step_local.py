"""The worst step on chained arithmetic, by a judge that never looks ahead.

To answer at once with the value that the prompt begins with is flawless.

  python -m experiments.run --config experiments/configs/rewards/worst_step_local.py \
    --workdir runs/worst_step_local
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "process as outcome"


def get_config():
  return rewards.on_task(pay(process="worst_step()"), rewards.LOCAL)
