"""GRPO on the embedded task: the z-score of a group.

  python -m experiments.run --config experiments/configs/methods/grpo.py \
    --workdir runs/grpo
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("grpo")
