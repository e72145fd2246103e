"""CISPO on the embedded task: clipped importance weights.

  python -m experiments.run --config experiments/configs/methods/cispo.py \
    --workdir runs/cispo
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("cispo")
