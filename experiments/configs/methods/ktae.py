"""KTAE on the embedded task: a bonus for tokens that tell right from wrong.

  python -m experiments.run --config experiments/configs/methods/ktae.py \
    --workdir runs/ktae
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("ktae")
