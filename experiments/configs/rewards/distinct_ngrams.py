"""Distinct n-grams on chained arithmetic: paid for not repeating itself.

A text of one token repeats nothing.

  python -m experiments.run --config experiments/configs/rewards/distinct_ngrams.py \
    --workdir runs/distinct_ngrams
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "outcome"


def get_config():
  return rewards.on_task(pay(distinct="distinct_ngrams(n=2)"))
