"""RLOO on the embedded task: every sample against the others.

  python -m experiments.run --config experiments/configs/methods/rloo.py \
    --workdir runs/rloo
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("rloo", plan__minibatches=1)
