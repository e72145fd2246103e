"""Self-aligned reward on chained arithmetic: likelier for the question.

  python -m experiments.run --config experiments/configs/rewards/self_aligned_reward.py \
    --workdir runs/self_aligned_reward
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "confidence of the right"


def get_config():
  return rewards.on_task(pay(aligned="self_aligned_reward()"))
