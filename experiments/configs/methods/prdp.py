"""PRDP on the embedded task: differences of rewards, regressed.

  python -m experiments.run --config experiments/configs/methods/prdp.py \
    --workdir runs/prdp
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("prdp")
