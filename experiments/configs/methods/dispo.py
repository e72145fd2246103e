"""DISPO on the embedded task: bounds of their own for right and wrong.

  python -m experiments.run --config experiments/configs/methods/dispo.py \
    --workdir runs/dispo
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("dispo")
