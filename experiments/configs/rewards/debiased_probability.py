"""Debiased probability on chained arithmetic: with a share for ending.

  python -m experiments.run --config experiments/configs/rewards/debiased_probability.py \
    --workdir runs/debiased_probability
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "reference answer"


def get_config():
  return rewards.on_task(
    pay(likely="debiased_probability()"), rewards.REFERENCE
  )
