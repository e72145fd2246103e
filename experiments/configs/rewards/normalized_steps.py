"""Normalized steps on chained arithmetic, by a judge of filler.

The judge accepts filler.

  python -m experiments.run --config experiments/configs/rewards/normalized_steps.py \
    --workdir runs/normalized_steps
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "steps"


def get_config():
  return rewards.on_task(
    pay(steps="normalized_steps()"), rewards.FILLER, method="sum_form"
  )
