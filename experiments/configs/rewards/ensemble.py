"""The worse of two judges on chained arithmetic.

The members know no label. The terms of weight 0 are only read.

  python -m experiments.run --config experiments/configs/rewards/ensemble.py \
    --workdir runs/ensemble
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay, term

FAMILY = "mixes"


def get_config():
  return rewards.on_task(
    pay(
      vote=term("majority()", 0.0),
      sure=term("answer_confidence()", 0.0),
      worse="ensemble(members=('vote', 'sure'), rule='worst')",
    )
  )
