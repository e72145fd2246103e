"""Probability on chained arithmetic: of the true answer, after the thought.

  python -m experiments.run --config experiments/configs/rewards/probability.py \
    --workdir runs/probability
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "reference answer"


def get_config():
  return rewards.on_task(pay(likely="probability()"), rewards.REFERENCE)
