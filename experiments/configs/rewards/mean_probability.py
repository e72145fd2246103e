"""Mean probability on chained arithmetic: of the true answer's tokens.

  python -m experiments.run --config experiments/configs/rewards/mean_probability.py \
    --workdir runs/mean_probability
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "reference answer"


def get_config():
  return rewards.on_task(pay(likely="mean_probability()"), rewards.REFERENCE)
