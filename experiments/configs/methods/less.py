"""LESS on the embedded task: low-entropy pieces weigh by who shares them.

  python -m experiments.run --config experiments/configs/methods/less.py \
    --workdir runs/less
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("less", steps_per_dispatch=1)
