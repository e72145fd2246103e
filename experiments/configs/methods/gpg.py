"""GPG on the embedded task: REINFORCE over the groups that say something.

  python -m experiments.run --config experiments/configs/methods/gpg.py \
    --workdir runs/gpg
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("gpg", plan__minibatches=1)
