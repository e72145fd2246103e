"""Phase entropy on chained arithmetic: right, and not wavering in thought.

The thought ends at ANS, which is token 4.

  python -m experiments.run --config experiments/configs/rewards/phase_entropy.py \
    --workdir runs/phase_entropy
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "confidence of the right"


def get_config():
  return rewards.on_task(pay(right="phase_entropy(thought_end=4)"))
