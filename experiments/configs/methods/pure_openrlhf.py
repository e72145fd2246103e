"""pure_openrlhf on chained arithmetic: PURE as on OpenRLHF.

  python -m experiments.run --config experiments/configs/methods/pure_openrlhf.py \
    --workdir runs/pure_openrlhf
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("pure_openrlhf", task=methods.CHAIN)
