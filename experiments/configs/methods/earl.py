"""EARL on the embedded task: only the most uncertain tokens are trained.

  python -m experiments.run --config experiments/configs/methods/earl.py \
    --workdir runs/earl
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("earl")
