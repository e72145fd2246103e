"""brorl on the embedded task: many samples, a moving reference.

  python -m experiments.run --config experiments/configs/methods/brorl.py \
    --workdir runs/brorl
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("brorl")
