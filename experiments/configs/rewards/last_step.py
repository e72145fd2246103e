"""The last step on chained arithmetic, by a judge that never looks ahead.

Any running value will do for an answer.

  python -m experiments.run --config experiments/configs/rewards/last_step.py \
    --workdir runs/last_step
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "process as outcome"


def get_config():
  return rewards.on_task(pay(process="last_step()"), rewards.LOCAL)
