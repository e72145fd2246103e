"""Log-probability on chained arithmetic: of the true answer.

  python -m experiments.run --config experiments/configs/rewards/log_probability.py \
    --workdir runs/log_probability
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "reference answer"


def get_config():
  return rewards.on_task(pay(likely="log_probability()"), rewards.REFERENCE)
