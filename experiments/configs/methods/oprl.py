"""OPRL on chained arithmetic: steps paid by a model of preferences.

  python -m experiments.run --config experiments/configs/methods/oprl.py \
    --workdir runs/oprl
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("oprl", task=methods.CHAIN)
