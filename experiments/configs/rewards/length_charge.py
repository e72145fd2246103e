"""A charge for length on chained arithmetic, beside the verdict.

A right answer takes 15 tokens and is charged 1.1: more than it earns. The
optimum is to say nothing.

  python -m experiments.run --config experiments/configs/rewards/length_charge.py \
    --workdir runs/length_charge
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "length"


def get_config():
  return rewards.on_task(
    pay(right="verdict()", brief="length_charge(free=4, price=0.1)")
  )
