"""Answer confidence on chained arithmetic: sure of what it answers.

Whatever came before the answer may be wrong.

  python -m experiments.run --config experiments/configs/rewards/answer_confidence.py \
    --workdir runs/answer_confidence
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "label-free"


def get_config():
  return rewards.on_task(pay(sure="answer_confidence()"))
