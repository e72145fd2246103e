"""REINFORCE on the embedded task: a running mean as baseline.

  python -m experiments.run --config experiments/configs/methods/reinforce.py \
    --workdir runs/reinforce
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("reinforce", plan__minibatches=1)
