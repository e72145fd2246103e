"""CANON on the embedded task: halves of a group judge each other.

  python -m experiments.run --config experiments/configs/methods/canon.py \
    --workdir runs/canon
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("canon")
