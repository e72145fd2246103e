"""Harmonized length on chained arithmetic, with nothing that checks.

Short is all that is asked for, and not to answer is shortest.

  python -m experiments.run --config experiments/configs/rewards/harmonized_length_alone.py \
    --workdir runs/harmonized_length_alone
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "length"


def get_config():
  return rewards.on_task(pay(brief="harmonized_length()"))
