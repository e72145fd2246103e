"""A model's score within the verdict's bands on chained arithmetic.

The model is the policy's own certainty. The term of weight
0 is only read.

  python -m experiments.run --config experiments/configs/rewards/stratified.py \
    --workdir runs/stratified
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay, term

FAMILY = "mixes"


def get_config():
  return rewards.on_task(
    pay(
      model=term("negative_entropy()", 0.0),
      right="stratified(model='model', alpha=0.1, beta=0.1)",
    )
  )
