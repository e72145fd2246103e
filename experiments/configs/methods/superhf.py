"""SuperHF on the embedded task: imitate the best of each group.

  python -m experiments.run --config experiments/configs/methods/superhf.py \
    --workdir runs/superhf
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("superhf", plan__minibatches=1)
