"""SIREN on the embedded task: the entropy of open positions held.

  python -m experiments.run --config experiments/configs/methods/siren.py \
    --workdir runs/siren
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("siren")
