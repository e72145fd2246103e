"""fixpo on the embedded task: a trust region that is kept.

  python -m experiments.run --config experiments/configs/methods/fixpo.py \
    --workdir runs/fixpo
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("fixpo")
