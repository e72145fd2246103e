"""The log sigmoid of closeness.

  python -m experiments.run --config experiments/configs/rewards/log_sigmoid.py \
    --workdir runs/log_sigmoid
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "shapes"


def get_config():
  return rewards.on_task(
    pay(close="log_sigmoid(reference=0.5)"), rewards.CLOSENESS
  )
