"""StableReinforce on the embedded task: outliers dropped.

  python -m experiments.run --config experiments/configs/methods/stable_reinforce.py \
    --workdir runs/stable_reinforce
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("stable_reinforce")
