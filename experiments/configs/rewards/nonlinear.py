"""PSPO's shape of the steps on chained arithmetic: more are better.

The judge accepts filler, and each step that it accepts raises the reward.

  python -m experiments.run --config experiments/configs/rewards/nonlinear.py \
    --workdir runs/nonlinear
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "process as outcome"


def get_config():
  return rewards.on_task(pay(process="nonlinear()"), rewards.FILLER)
