"""Group log-mean on chained arithmetic: what a thought adds to its group.

  python -m experiments.run --config experiments/configs/rewards/group_log_mean_advantages.py \
    --workdir runs/group_log_mean_advantages
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "reference answer"


def get_config():
  return rewards.on_task(
    pay(likely="group_log_mean_advantages()"), rewards.REFERENCE
  )
