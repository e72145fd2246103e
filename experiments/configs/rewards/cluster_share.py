"""Cluster share on chained arithmetic: how many of the group answer alike.

  python -m experiments.run --config experiments/configs/rewards/cluster_share.py \
    --workdir runs/cluster_share
"""

from experiments.configs import rewards
from experiments.configs.defaults import pay

FAMILY = "label-free"


def get_config():
  return rewards.on_task(pay(share="cluster_share()"))
