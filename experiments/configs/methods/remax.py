"""ReMax on the embedded task: the greedy completion as baseline.

  python -m experiments.run --config experiments/configs/methods/remax.py \
    --workdir runs/remax
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("remax", plan__minibatches=1)
