"""REINFORCE++-baseline on the embedded task: centred, then whitened.

  python -m experiments.run --workdir runs/reinforce_pp_baseline \
    --config experiments/configs/methods/reinforce_pp_baseline.py
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("reinforce_pp_baseline")
