"""A Weibull shape of the steps on chained arithmetic: about four are best.

The judge accepts filler; the prompts take four steps.

  python -m experiments.run --config experiments/configs/rewards/weibull.py \
    --workdir runs/weibull
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "process as outcome"


def get_config():
  return rewards.on_task(pay(process="weibull()"), rewards.FILLER)
