"""Kimi k1.5's objective on the embedded task: a quadratic leash.

  python -m experiments.run --config experiments/configs/methods/kimi.py \
    --workdir runs/kimi
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("kimi")
