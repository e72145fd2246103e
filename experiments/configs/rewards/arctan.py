"""The arctan of closeness against the greedy sample.

  python -m experiments.run --config experiments/configs/rewards/arctan.py \
    --workdir runs/arctan
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "shapes"


def get_config():
  return rewards.on_task(
    pay(close="arctan(references='stage/greedy_scores')"),
    rewards.CLOSENESS,
    stage="greedy()",
  )
