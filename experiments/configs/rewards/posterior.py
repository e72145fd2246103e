"""Posterior reward on chained arithmetic: the thought of right answers.

The judge of the thought never looks ahead. The term of weight
0 is only read.

  python -m experiments.run --config experiments/configs/rewards/posterior.py \
    --workdir runs/posterior
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay, term

FAMILY = "mixes"


def get_config():
  return rewards.on_task(
    pay(
      judge=term("step_product()", 0.0),
      right="posterior(thoughts='judge')",
    ),
    rewards.LOCAL,
  )
