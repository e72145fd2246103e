"""EMPG on the embedded chains, whose steps are known.

  python -m experiments.run --config experiments/configs/methods/empg.py \
    --workdir runs/empg
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("empg", methods.CHAIN)
