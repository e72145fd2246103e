"""The z-scores of three rewards on chained arithmetic.

The charge that spoils `length_charge` as a sum has no scale here.

  python -m experiments.run --config experiments/configs/rewards/z_scores.py \
    --workdir runs/z_scores
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay, term

FAMILY = "mixes"


def get_config():
  return rewards.on_task(
    pay(
      "z_scores",
      right="verdict()",
      ended=term("finished()", 0.2),
      brief=term("length_charge(free=4, price=0.1)", 0.2),
    )
  )
