"""The mean step on chained arithmetic, by a judge that accepts filler.

Filler before a wrong answer dilutes it.

  python -m experiments.run --config experiments/configs/rewards/mean_step.py \
    --workdir runs/mean_step
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "process as outcome"


def get_config():
  return rewards.on_task(pay(process="mean_step()"), rewards.FILLER)
