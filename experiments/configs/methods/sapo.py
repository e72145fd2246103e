"""SAPO on the embedded task: a sigmoid of the ratio.

  python -m experiments.run --config experiments/configs/methods/sapo.py \
    --workdir runs/sapo
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("sapo")
