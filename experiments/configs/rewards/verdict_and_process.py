"""The verdict plus the process on chained arithmetic, without a gate.

The judge never looks ahead, which `last_step` is paid for alone.

  python -m experiments.run --config experiments/configs/rewards/verdict_and_process.py \
    --workdir runs/verdict_and_process
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "mixes"


def get_config():
  return rewards.on_task(
    pay(right="verdict()", process="last_step()"), rewards.LOCAL
  )
