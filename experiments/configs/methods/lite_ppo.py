"""Lite PPO on the embedded task: the group's mean, the batch's spread.

  python -m experiments.run --config experiments/configs/methods/lite_ppo.py \
    --workdir runs/lite_ppo
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("lite_ppo")
