"""UCAS on the embedded task: unsure right answers are paid more.

  python -m experiments.run --config experiments/configs/methods/ucas.py \
    --workdir runs/ucas
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("ucas")
