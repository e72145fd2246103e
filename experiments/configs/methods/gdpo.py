"""GDPO on the embedded task: every reward normalised on its own.

  python -m experiments.run --config experiments/configs/methods/gdpo.py \
    --workdir runs/gdpo
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("gdpo")
