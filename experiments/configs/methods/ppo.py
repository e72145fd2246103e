"""PPO on the embedded task: generalised advantages of a value head.

  python -m experiments.run --config experiments/configs/methods/ppo.py \
    --workdir runs/ppo
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("ppo")
