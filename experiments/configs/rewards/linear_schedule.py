"""From the process to the verdict on chained arithmetic, in a line.

The judge never looks ahead; after 40 steps nothing of it is left.

  python -m experiments.run --config experiments/configs/rewards/linear_schedule.py \
    --workdir runs/linear_schedule
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay, term

FAMILY = "mixes"


def get_config():
  return rewards.on_task(
    pay(
      right="verdict()",
      process=term("last_step()", 1.0, schedule="linear", final=0.0, over=40),
    ),
    rewards.LOCAL,
  )
