"""An adaptive token price on chained arithmetic.

A right answer takes 15 tokens, which cost .15 at the start; the price moves
with the accuracy of the batch, whose start is near .7.

  python -m experiments.run --config experiments/configs/rewards/adaptive_token_price.py \
    --workdir runs/adaptive_token_price
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "length"


def get_config():
  return rewards.on_task(
    pay(right="adaptive_token_price(price=0.01, reference=0.7, rate=0.01)")
  )
