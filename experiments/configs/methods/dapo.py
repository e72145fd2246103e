"""DAPO on the embedded task: clip-higher and dynamic sampling.

  python -m experiments.run --config experiments/configs/methods/dapo.py \
    --workdir runs/dapo
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("dapo")
