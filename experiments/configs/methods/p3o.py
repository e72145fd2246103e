"""P3O on the embedded task: clipped differences of pairs.

  python -m experiments.run --config experiments/configs/methods/p3o.py \
    --workdir runs/p3o
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("p3o")
