"""pure_verl on chained arithmetic: PURE as on verl.

  python -m experiments.run --config experiments/configs/methods/pure_verl.py \
    --workdir runs/pure_verl
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("pure_verl", task=methods.CHAIN)
