"""A judge trusted where it agrees with the verdict, on chained arithmetic.

The judge of the thought never looks ahead. The term of weight
0 is only read.

  python -m experiments.run --config experiments/configs/rewards/trusted.py \
    --workdir runs/trusted
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay, term

FAMILY = "mixes"


def get_config():
  return rewards.on_task(
    pay(
      judge=term("step_product()", 0.0),
      right="trusted(thoughts='judge', horizon=40.0)",
    ),
    rewards.LOCAL,
  )
