"""Length charged on the easiest prompts of chained arithmetic.

  python -m experiments.run --config experiments/configs/rewards/charged_where_easy.py \
    --workdir runs/charged_where_easy
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "length"


def get_config():
  return rewards.on_task(pay(right="charged_where_easy()"))
