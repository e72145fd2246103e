"""Closeness up to a ceiling: half near is as good as a hit.

  python -m experiments.run --config experiments/configs/rewards/ceiling.py \
    --workdir runs/ceiling
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "shapes"


def get_config():
  return rewards.on_task(pay(close="ceiling(highest=0.5)"), rewards.CLOSENESS)
