"""The graded score of closeness, as it is.

Near is paid for; right is an exact hit.

  python -m experiments.run --config experiments/configs/rewards/task.py \
    --workdir runs/task
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "shapes"


def get_config():
  return rewards.on_task(pay(close="task()"), rewards.CLOSENESS)
