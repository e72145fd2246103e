"""prime on chained arithmetic: an implicit process reward model.

  python -m experiments.run --config experiments/configs/methods/prime.py \
    --workdir runs/prime
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("prime", task=methods.CHAIN)
