"""OPO on the embedded task: a baseline that weighs samples by length.

  python -m experiments.run --config experiments/configs/methods/opo.py \
    --workdir runs/opo
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("opo", plan__minibatches=1)
