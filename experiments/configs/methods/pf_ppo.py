"""pf_ppo on the embedded task: the extremes of each group.

  python -m experiments.run --config experiments/configs/methods/pf_ppo.py \
    --workdir runs/pf_ppo
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("pf_ppo")
