"""PAR on closeness: the chance to beat the greedy sample.

  python -m experiments.run --config experiments/configs/rewards/preference.py \
    --workdir runs/preference
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "shapes"


def get_config():
  return rewards.on_task(
    pay(close="preference(references='stage/greedy_scores')"),
    rewards.CLOSENESS,
    stage="greedy()",
  )
