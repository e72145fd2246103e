"""A late sigmoid on closeness, against the greedy sample.

  python -m experiments.run --config experiments/configs/rewards/late_preference.py \
    --workdir runs/late_preference
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "shapes"


def get_config():
  return rewards.on_task(
    pay(close="late_preference(references='stage/greedy_scores')"),
    rewards.CLOSENESS,
    stage="greedy()",
  )
