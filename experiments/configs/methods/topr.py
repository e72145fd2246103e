"""TOPR on the embedded task: tapered weights of wrong samples.

  python -m experiments.run --config experiments/configs/methods/topr.py \
    --workdir runs/topr
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("topr")
