"""Token F1 on chained arithmetic: words shared with the true answer.

The whole completion is compared, so that all it says besides the answer costs.

  python -m experiments.run --config experiments/configs/rewards/token_f1.py \
    --workdir runs/token_f1
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "reference answer"


def get_config():
  return rewards.on_task(pay(overlap="token_f1()"), rewards.REFERENCE)
