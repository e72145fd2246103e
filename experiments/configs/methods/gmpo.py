"""GMPO on the embedded task: geometric means of ratios.

  python -m experiments.run --config experiments/configs/methods/gmpo.py \
    --workdir runs/gmpo
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("gmpo")
