"""RL-ZVP on the embedded task: groups without variance learn by entropy.

  python -m experiments.run --config experiments/configs/methods/rl_zvp.py \
    --workdir runs/rl_zvp
"""

from experiments.configs import methods


def get_config():
  return methods.on_task("rl_zvp")
