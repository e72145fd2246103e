"""Outcome-centred steps on chained arithmetic, by a judge of filler.

The judge accepts filler.

  python -m experiments.run --config experiments/configs/rewards/outcome_centered.py \
    --workdir runs/outcome_centered
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "steps"


def get_config():
  return rewards.on_task(
    pay(steps="outcome_centered()"), rewards.FILLER, method="sum_form"
  )
