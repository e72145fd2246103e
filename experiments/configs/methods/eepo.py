"""eepo on the embedded task: half after forgetting the others.

  python -m experiments.run --config experiments/configs/methods/eepo.py \
    --workdir runs/eepo
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("eepo")
