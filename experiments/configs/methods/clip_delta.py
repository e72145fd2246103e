"""clip_delta on chained arithmetic: bounded process rewards.

  python -m experiments.run --config experiments/configs/methods/clip_delta.py \
    --workdir runs/clip_delta
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("clip_delta", task=methods.CHAIN)
