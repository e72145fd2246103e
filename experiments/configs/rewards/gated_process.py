"""The process behind the verdict's gate on chained arithmetic.

The judge never looks ahead, which `mean_step_local` is paid for alone.

  python -m experiments.run --config experiments/configs/rewards/gated_process.py \
    --workdir runs/gated_process
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay, term

FAMILY = "mixes"


def get_config():
  return rewards.on_task(
    pay(
      right="verdict()",
      process=term("mean_step()", 0.5, gates=("right",)),
    ),
    rewards.LOCAL,
  )
