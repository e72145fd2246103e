"""aryabhata on the embedded task: groups that double while unsolved.

  python -m experiments.run --config experiments/configs/methods/aryabhata.py \
    --workdir runs/aryabhata
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("aryabhata", plan__minibatches=1)
