"""Mean log-probability on chained arithmetic: of the true answer.

  python -m experiments.run --config experiments/configs/rewards/mean_log_probability.py \
    --workdir runs/mean_log_probability
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "reference answer"


def get_config():
  return rewards.on_task(
    pay(likely="mean_log_probability()"), rewards.REFERENCE
  )
