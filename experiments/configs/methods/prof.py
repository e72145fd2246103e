"""PROF on chained arithmetic: samples whose steps agree with their outcome.

  python -m experiments.run --config experiments/configs/methods/prof.py \
    --workdir runs/prof
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("prof", task=methods.CHAIN)
