"""ACO (Genius) on the embedded task: pairs by foresight, without a label.

  python -m experiments.run --config experiments/configs/methods/aco.py \
    --workdir runs/aco
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("aco")
