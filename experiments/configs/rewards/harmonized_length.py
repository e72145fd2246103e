"""Harmonized length on chained arithmetic, of right answers only.

  python -m experiments.run --config experiments/configs/rewards/harmonized_length.py \
    --workdir runs/harmonized_length
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay, term

FAMILY = "length"


def get_config():
  return rewards.on_task(
    pay(
      right="verdict()",
      brief=term("harmonized_length()", 0.2, gates=("right",)),
    )
  )
