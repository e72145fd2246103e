"""Lp-Reg on the embedded task: unlikely tokens that make sense protected.

  python -m experiments.run --config experiments/configs/methods/lp_reg.py \
    --workdir runs/lp_reg
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("lp_reg")
